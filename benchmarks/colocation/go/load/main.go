// Load plays a day of requests against an HTTP server and tells how long each took.
//
// Arrivals are open-loop: their times are drawn beforehand (a Poisson process whose rate follows the day) and a
// request's time begins at its arrival, whether or not a connection was free for it. So waiting that the server causes
// is counted, also that of the requests behind it. The same seed gives the same arrivals.
//
// One thread, one epoll, and system calls that Go's scheduler does not see: run at real-time priority it answers for
// nothing but the server's own time. Standard output gets one record a request: arrival and time, both in
// nanoseconds, each eight bytes, little-endian; standard error a line "ready" when the warm-up begins.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

var (
	port        = flag.Int("port", 8080, "of the server on the loopback")
	files       = flag.Int("files", 1, "requests are for /0 to /FILES-1, drawn evenly")
	seconds     = flag.Float64("seconds", 10, "length of the day")
	warmUp      = flag.Float64("warm-up", 1, "seconds at the first rate before the day begins, not told")
	low         = flag.Float64("low", 100, "requests a second in the night")
	high        = flag.Float64("high", 1000, "requests a second at noon")
	connections = flag.Int("connections", 32, "kept open, the same number to each of the server's processes")
	workers     = flag.Int("workers", 2, "processes of the server; each names itself in a header X-Worker")
	seed        = flag.Uint64("seed", 1, "of the arrivals")
)

const (
	patience  = 10 * time.Second // after the day, for what is still under way
	mostDials = 4096
)

type request struct {
	arrival time.Duration
	file    int
}

type connection struct {
	fd      int
	arrival time.Duration
	tail    []byte // the last bytes of the answer so far
}

func main() {
	flag.Parse()
	runtime.LockOSThread()
	clients, err := dialAll()
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
	if err := play(schedule(), clients); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// rate is that of the day's part x, 0 to 1: night, a morning's rise, a peak at noon, a second one in the evening.
func rate(x float64) float64 {
	if x < 0 {
		x = 0
	}
	noon := math.Exp(-math.Pow((x-0.42)/0.14, 2))
	evening := 0.8 * math.Exp(-math.Pow((x-0.78)/0.09, 2))
	return *low + (*high-*low)*math.Min(1, noon+evening)
}

// schedule draws the arrivals by thinning: at the highest rate, each kept with the probability of its moment's rate.
func schedule() []request {
	draw := rand.New(rand.NewPCG(*seed, 0))
	drawn := make([]request, 0, int(*high*(*seconds+*warmUp))+1)
	for at := -*warmUp; ; {
		at += draw.ExpFloat64() / *high
		if at >= *seconds {
			return drawn
		}
		if draw.Float64()**high < rate(at / *seconds) {
			drawn = append(drawn, request{time.Duration(at * 1e9), draw.IntN(*files)})
		}
	}
}

// dialAll opens connections until each of the server's processes has its equal part of them.
func dialAll() ([]*connection, error) {
	each, kept := *connections / *workers, []*connection{}
	had := map[string]int{}
	for range mostDials {
		if len(kept) == each**workers {
			return kept, nil
		}
		fd, worker, err := dial()
		if err != nil {
			return nil, err
		}
		if had[worker] == each {
			syscall.Close(fd)
			continue
		}
		had[worker]++
		kept = append(kept, &connection{fd: fd})
	}
	return nil, fmt.Errorf("%d connections, and not %d of them to each of %d processes: %v", mostDials, each, *workers, had)
}

func dial() (int, string, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, "", err
	}
	address := &syscall.SockaddrInet4{Port: *port, Addr: [4]byte{127, 0, 0, 1}}
	if err := syscall.Connect(fd, address); err != nil {
		return 0, "", fmt.Errorf("port %d: %w", *port, err)
	}
	if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1); err != nil {
		return 0, "", err
	}
	if _, err := syscall.Write(fd, question(0)); err != nil {
		return 0, "", err
	}
	answer := []byte{}
	for !bytes.HasSuffix(answer, end) {
		part := make([]byte, 1<<16)
		n, err := syscall.Read(fd, part)
		if err != nil || n == 0 {
			return 0, "", fmt.Errorf("the server closed a connection: %v: %.200s", err, answer)
		}
		answer = append(answer, part[:n]...)
	}
	if !bytes.HasPrefix(answer, []byte("HTTP/1.1 200")) {
		return 0, "", fmt.Errorf("the server answered %.200s", answer)
	}
	_, after, _ := bytes.Cut(answer, []byte("X-Worker: "))
	worker, _, _ := bytes.Cut(after, []byte("\r\n"))
	return fd, string(worker), syscall.SetNonblock(fd, true)
}

// end is the last chunk of a chunked answer.
var end = []byte("\r\n0\r\n\r\n")

func question(file int) []byte {
	return []byte("GET /" + strconv.Itoa(file) + " HTTP/1.1\r\nHost: online\r\nAccept-Encoding: gzip\r\n\r\n")
}

func play(requests []request, clients []*connection) error {
	questions := make([][]byte, *files)
	for i := range questions {
		questions[i] = question(i)
	}
	poll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	for i, client := range clients {
		event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(i)}
		if err := syscall.EpollCtl(poll, syscall.EPOLL_CTL_ADD, client.fd, &event); err != nil {
			return err
		}
	}
	took := make([]time.Duration, 0, len(requests))
	when := make([]time.Duration, 0, len(requests))
	idle := append(make([]*connection, 0, len(clients)), clients...)
	events := make([]syscall.EpollEvent, len(clients))
	buffer := make([]byte, 1<<18)
	fmt.Fprintln(os.Stderr, "ready")
	begin := time.Now().Add(time.Duration(*warmUp * 1e9))
	last := time.Duration(*seconds*1e9) + patience
	for next := 0; next < len(requests) || len(idle) < len(clients); {
		now := time.Since(begin)
		if now > last {
			return fmt.Errorf("%d requests were still under way %s after the day's end", len(clients)-len(idle)+len(requests)-next, patience)
		}
		for next < len(requests) && requests[next].arrival <= now && len(idle) > 0 {
			client := idle[0]
			idle = append(idle[:0], idle[1:]...)
			client.arrival, client.tail = requests[next].arrival, client.tail[:0]
			if n, err := rawWrite(client.fd, questions[requests[next].file]); err != 0 || n != len(questions[requests[next].file]) {
				return fmt.Errorf("cannot ask: %w", err)
			}
			next++
		}
		wait := 100 * time.Millisecond
		if next < len(requests) && len(idle) > 0 {
			wait = max(0, min(wait, requests[next].arrival-time.Since(begin)))
		}
		ready := rawPoll(poll, events, wait)
		for _, event := range events[:ready] {
			client := clients[event.Fd]
			done, err := client.read(buffer)
			if err != nil {
				return err
			}
			if !done {
				continue
			}
			when = append(when, client.arrival)
			took = append(took, time.Since(begin)-client.arrival)
			idle = append(idle, client)
		}
	}
	return tell(when, took)
}

// read takes what has come; true when the answer is whole. One request is under way on a connection at a time.
func (c *connection) read(buffer []byte) (bool, error) {
	n, err := rawRead(c.fd, buffer)
	if err == syscall.EAGAIN || err == syscall.EINTR {
		return false, nil
	}
	if err != 0 || n == 0 {
		return false, fmt.Errorf("the server closed a connection: %w", err)
	}
	if n >= len(end) {
		c.tail = append(c.tail[:0], buffer[n-len(end):n]...)
	} else {
		c.tail = append(c.tail, buffer[:n]...)
		c.tail = c.tail[max(0, len(c.tail)-len(end)):]
	}
	return bytes.Equal(c.tail, end), nil
}

func tell(when, took []time.Duration) error {
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	for i := range when {
		if when[i] < 0 {
			continue
		}
		record := [2]int64{int64(when[i]), int64(took[i])}
		if err := binary.Write(out, binary.LittleEndian, record); err != nil {
			return err
		}
	}
	return out.Flush()
}

// The raw calls below do not tell Go's scheduler that the thread may block: there is no other that should run.

func rawWrite(fd int, data []byte) (int, syscall.Errno) {
	n, _, err := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)))
	return int(n), err
}

func rawRead(fd int, data []byte) (int, syscall.Errno) {
	n, _, err := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)))
	return int(n), err
}

const sysEpollPwait2 = 441 // since Linux 5.11, the same number on every architecture; a wait in nanoseconds

func rawPoll(poll int, events []syscall.EpollEvent, wait time.Duration) int {
	span := syscall.NsecToTimespec(int64(wait))
	n, _, err := syscall.RawSyscall6(sysEpollPwait2, uintptr(poll), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), uintptr(unsafe.Pointer(&span)), 0, 0)
	if err != 0 {
		return 0
	}
	return int(n)
}
