// Hog is offline work that hurts, of one kind, and counts what it gets done.
//
// `hog busy THREADS`: threads that compute. `hog memory THREADS FILE BYTES`: threads that read a file which does not
// fit into memory, from random places, and keep BYTES of their own memory in use. `hog disk FILE BYTES`: writes a file
// of so many bytes anew and again, with fsync after each mebibyte. `hog spill THREADS FILE BYTES`: `busy` with `disk`
// beside it, as a shuffle between two steps of batch work has them. The count (loops, pages read, bytes; loops of
// `spill`) stands in a file named by HOG_COUNTER, eight bytes in the machine's order, and is kept up to date.
package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"unsafe"
)

const (
	page  = 4096
	chunk = 1 << 20
	batch = 1 << 14 // turns of the busy loop that make one loop: some tens of microseconds
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "hog:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) < 2 {
		return fmt.Errorf("what, and how much of it?")
	}
	counter, err := shared(os.Getenv("HOG_COUNTER"))
	if err != nil {
		return err
	}
	switch arguments[0] {
	case "busy":
		return busy(number(arguments[1]), counter)
	case "memory":
		return memory(number(arguments[1]), arguments[2], number(arguments[3]), counter)
	case "disk":
		return disk(arguments[1], number(arguments[2]), counter)
	case "spill":
		go func() {
			fmt.Fprintln(os.Stderr, "hog:", disk(arguments[2], number(arguments[3]), new(atomic.Int64)))
			os.Exit(1)
		}()
		return busy(number(arguments[1]), counter)
	}
	return fmt.Errorf("%q is no kind of work", arguments[0])
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		fmt.Fprintf(os.Stderr, "hog: %q is no number above 0\n", text)
		os.Exit(2)
	}
	return n
}

// shared maps the counter's file, so that counting is no system call.
func shared(path string) (*atomic.Int64, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("HOG_COUNTER: %w", err)
	}
	data, err := syscall.Mmap(int(file.Fd()), 0, 8, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("HOG_COUNTER: %w", err)
	}
	return (*atomic.Int64)(unsafe.Pointer(&data[0])), nil
}

// threads runs work on so many threads of their own, for ever.
func threads(count int, work func(seed uint64)) {
	runtime.GOMAXPROCS(count + 1)
	for i := range count {
		go func() {
			runtime.LockOSThread()
			work(uint64(i))
		}()
	}
	select {}
}

var sink atomic.Uint64

func busy(count int, counter *atomic.Int64) error {
	threads(count, func(seed uint64) {
		for {
			for range batch {
				seed = seed*6364136223846793005 + 1442695040888963407
			}
			sink.Store(seed)
			counter.Add(1)
		}
	})
	return nil
}

func memory(count int, path string, bytes int, counter *atomic.Int64) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	pages := info.Size() / page
	own := make([]byte, bytes)
	threads(count, func(seed uint64) {
		draw := rand.New(rand.NewPCG(seed, 0))
		part := make([]byte, 16*page)
		for {
			at := draw.Int64N(pages-16) * page
			if _, err := file.ReadAt(part, at); err != nil {
				fmt.Fprintln(os.Stderr, "hog:", err)
				os.Exit(1)
			}
			own[draw.IntN(len(own))]++
			counter.Add(16)
		}
	})
	return nil
}

func disk(path string, bytes int, counter *atomic.Int64) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	data := make([]byte, chunk)
	for {
		for at := 0; at < bytes; at += chunk {
			if _, err := file.WriteAt(data, int64(at)); err != nil {
				return err
			}
			if err := file.Sync(); err != nil {
				return err
			}
			counter.Add(chunk)
		}
	}
}
