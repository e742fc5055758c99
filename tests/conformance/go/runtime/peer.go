package main

import (
	"encoding/json"
	"errors"
	"io"
	"sync"
)

// line is one line of the conversation. With an Op it is a question, without one the answer to the
// question of that ID. Both sides ask, so each numbers its own questions.
type line struct {
	ID    int64           `json:"id"`
	Op    string          `json:"op,omitempty"`
	Body  json.RawMessage `json:"body,omitempty"`
	Error string          `json:"error,omitempty"`
}

// answerer answers one of the other side's questions.
type answerer func(op string, body json.RawMessage) (json.RawMessage, error)

// peer is the other side: the process that reads our standard output and writes our standard input.
type peer struct {
	mutex   sync.Mutex
	out     *json.Encoder
	last    int64
	waiting map[int64]chan line
}

func newPeer(out io.Writer) *peer {
	return &peer{out: json.NewEncoder(out), waiting: map[int64]chan line{}}
}

// serve answers questions, each on its own goroutine, until the other side ends the conversation.
func (p *peer) serve(in io.Reader, answer answerer) error {
	decoder := json.NewDecoder(in)
	for {
		var got line
		if err := decoder.Decode(&got); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if got.Op == "" {
			p.deliver(got)
			continue
		}
		go func() {
			body, err := answer(got.Op, got.Body)
			reply := line{ID: got.ID, Body: body}
			if err != nil {
				reply.Error = err.Error()
			}
			p.write(reply)
		}()
	}
}

// ask puts a question to the other side and waits for its answer; that side bounds the time.
func (p *peer) ask(op string, body json.RawMessage) (json.RawMessage, error) {
	answered := make(chan line, 1)
	p.mutex.Lock()
	p.last++
	question := line{ID: p.last, Op: op, Body: body}
	p.waiting[question.ID] = answered
	p.mutex.Unlock()
	p.write(question)
	got := <-answered
	if got.Error != "" {
		return nil, errors.New(got.Error)
	}
	return got.Body, nil
}

func (p *peer) deliver(answer line) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if waiting, ok := p.waiting[answer.ID]; ok {
		delete(p.waiting, answer.ID)
		waiting <- answer
	}
}

func (p *peer) write(out line) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	// a reader that is gone also closed our standard input, which ends the program
	_ = p.out.Encode(out)
}
