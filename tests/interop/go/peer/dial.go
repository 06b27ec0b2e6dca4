package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"sync"
	"time"

	"github.com/openziti/sdk-golang/ziti"
	"github.com/openziti/sdk-golang/ziti/edge"
)

// How long a dial, and how long the data of one connection may take.
const (
	connected = 30 * time.Second
	carried   = 90 * time.Second
)

// A connection that stays open between commands.
type connection struct{ edge.Conn }

func (p *Peer) dial(c Command) (edge.Conn, error) {
	options := &ziti.DialOptions{ConnectTimeout: connected, Identity: c.Instance, AppData: []byte(c.AppData)}
	dialWithFlowControl(options, c.FlowControl)
	return p.context.DialWithOptions(c.Service, options)
}

// The result of one connection. Sums are SHA-256.
type outcome struct {
	DialMicros int64  `json:"dialMicros"`
	Sent       string `json:"sent"`
	Received   string `json:"received"`
	Bytes      int64  `json:"bytes"` // received
	Failure    string `json:"failure,omitempty"`
}

// Dials so many connections in parallel; each sends bytes and the end of the stream, and reads to the end.
func (p *Peer) carry(c Command) []outcome {
	outcomes := make([]outcome, max(c.Connections, 1))
	var all sync.WaitGroup
	for i := range outcomes {
		all.Add(1)
		go func() {
			defer all.Done()
			if err := p.carryOne(c, int64(c.ID*1000+i), &outcomes[i]); err != nil {
				outcomes[i].Failure = err.Error()
			}
		}()
	}
	all.Wait()
	return outcomes
}

func (p *Peer) carryOne(c Command, seed int64, out *outcome) error {
	start := time.Now()
	conn, err := p.dial(c)
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	defer func() { _ = conn.Close() }()
	out.DialMicros = time.Since(start).Microseconds()
	within := carried
	if c.Millis > 0 {
		within = time.Duration(c.Millis) * time.Millisecond
	}
	_ = conn.SetDeadline(time.Now().Add(within))
	written := make(chan error, 1)
	go func() { written <- send(conn, c, seed, out) }()
	received := sha256.New()
	var source io.Reader = onlyReader{conn}
	if c.Leave {
		source = io.LimitReader(source, int64(c.Bytes))
	}
	// With its own buffer, because applications do not use the optimized io.Copy path of the libraries.
	out.Bytes, err = io.CopyBuffer(onlyWriter{received}, source, make([]byte, 64<<10))
	out.Received = hex.EncodeToString(received.Sum(nil))
	return errors.Join(err, <-written)
}

func send(conn edge.Conn, c Command, seed int64, out *outcome) error {
	sent, random, chunk := sha256.New(), rand.New(rand.NewSource(seed)), max(c.Chunk, 1)
	buffer := make([]byte, min(chunk, max(c.Bytes, 1)))
	for left := c.Bytes; left > 0; {
		part := buffer[:min(chunk, left)]
		_, _ = random.Read(part)
		sent.Write(part)
		if _, err := conn.Write(part); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		left -= len(part)
	}
	out.Sent = hex.EncodeToString(sent.Sum(nil))
	if err := conn.CloseWrite(); err != nil {
		return fmt.Errorf("close for writing: %w", err)
	}
	return nil
}

func (p *Peer) open(c Command) (any, error) {
	start := time.Now()
	conn, err := p.dial(c)
	if err != nil {
		return nil, err
	}
	p.mutex.Lock()
	p.connections[c.Name] = &connection{conn}
	p.mutex.Unlock()
	return map[string]any{"dialMicros": time.Since(start).Microseconds()}, nil
}

func (p *Peer) connection(name string) (*connection, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if found, is := p.connections[name]; is {
		return found, nil
	}
	return nil, fmt.Errorf("there is no connection %q", name)
}

// Sends bytes and reads as many back, which must be the same.
func (p *Peer) echo(c Command) error {
	conn, err := p.connection(c.Name)
	if err != nil {
		return err
	}
	_ = conn.SetDeadline(time.Now().Add(carried))
	sent, received := make([]byte, c.Bytes), make([]byte, c.Bytes)
	_, _ = rand.Read(sent)
	written := make(chan error, 1)
	go func() {
		_, err := conn.Write(sent)
		written <- err
	}()
	if _, err := io.ReadFull(conn, received); err != nil {
		return err
	}
	if !bytes.Equal(sent, received) {
		return errors.New("something else came back")
	}
	return <-written
}

// Writes until a write blocks for a while, and returns how much was written.
func (p *Peer) fill(c Command) (any, error) {
	conn, err := p.connection(c.Name)
	if err != nil {
		return nil, err
	}
	taken, progress := 0, make(chan int)
	go func() {
		buffer := make([]byte, 32<<10)
		for {
			wrote, err := conn.Write(buffer)
			if err != nil {
				close(progress)
				return
			}
			progress <- wrote
		}
	}()
	for taken < c.Bytes {
		select {
		case wrote, open := <-progress:
			if !open {
				return map[string]any{"bytes": taken, "ended": true}, nil
			}
			taken += wrote
		case <-time.After(time.Duration(c.Millis) * time.Millisecond):
			return map[string]any{"bytes": taken, "ended": false}, nil
		}
	}
	return map[string]any{"bytes": taken, "ended": false}, nil
}

// Reads to the end, and returns how long that took and why it ended.
func (p *Peer) ended(c Command) (any, error) {
	conn, err := p.connection(c.Name)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	_ = conn.SetReadDeadline(start.Add(time.Duration(c.Millis) * time.Millisecond))
	_, err = io.Copy(io.Discard, onlyReader{conn})
	if errors.Is(err, os.ErrDeadlineExceeded) || (err != nil && time.Since(start) >= time.Duration(c.Millis)*time.Millisecond) {
		return nil, errors.New("it did not end")
	}
	reason := "end"
	if err != nil {
		reason = err.Error()
	}
	return map[string]any{"millis": time.Since(start).Milliseconds(), "reason": reason}, nil
}

func (p *Peer) close(name string) error {
	conn, err := p.connection(name)
	if err != nil {
		return err
	}
	return conn.Close()
}
