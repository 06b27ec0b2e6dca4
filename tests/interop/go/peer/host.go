package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/openziti/sdk-golang/ziti"
	"github.com/openziti/sdk-golang/ziti/edge"
)

// How long a listener may take until it is known to the network.
const bound = 30 * time.Second

// A listener and the identities that dialed it, in order.
type listener struct {
	edge.Listener
	mutex   sync.Mutex
	callers []caller
}

// The caller as reported by the library.
type caller struct {
	Name    string `json:"name"`
	AppData string `json:"appData"`
}

func (l *listener) note(conn edge.Conn) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.callers = append(l.callers, caller{Name: conn.SourceIdentifier(), AppData: string(conn.GetAppData())})
}

func (p *Peer) host(c Command) error {
	options := ziti.DefaultListenOptions()
	options.ConnectTimeout, options.MaxTerminators, options.WaitForNEstablishedListeners = bound, 1, 1
	options.Cost, options.Identity, options.ManualStart = c.Cost, c.Instance, c.Behaviour == "unanswered"
	options.Precedence = ziti.GetPrecedenceForLabel(c.Precedence)
	listenWithFlowControl(options, c.FlowControl)
	opened, err := p.context.ListenWithOptions(c.Service, options)
	if err != nil {
		return err
	}
	made := &listener{Listener: opened}
	p.mutex.Lock()
	p.listeners[c.Name] = made
	p.mutex.Unlock()
	go made.serve(c.Behaviour)
	return nil
}

func (l *listener) serve(behaviour string) {
	for {
		conn, err := l.AcceptEdge()
		if err != nil {
			return
		}
		l.note(conn)
		if behaviour == "echo" || behaviour == "" {
			go echo(conn)
		}
	}
}

// Sends back what it receives, then the end of the stream.
func echo(conn edge.Conn) {
	defer func() { _ = conn.Close() }()
	if _, err := io.CopyBuffer(onlyWriter{conn}, onlyReader{conn}, make([]byte, 32<<10)); err != nil {
		return
	}
	_ = conn.CloseWrite()
	// The other end closes after it has received everything.
	_, _ = conn.Read(make([]byte, 1))
}

// Avoids the optimized paths of io.Copy.
type onlyReader struct{ io.Reader }
type onlyWriter struct{ io.Writer }

func (p *Peer) listener(name string) (*listener, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if found, is := p.listeners[name]; is {
		return found, nil
	}
	return nil, fmt.Errorf("there is no listener %q", name)
}

func (p *Peer) unhost(name string) error {
	found, err := p.listener(name)
	if err != nil {
		return err
	}
	if err := found.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

func (p *Peer) callers(name string) (any, error) {
	found, err := p.listener(name)
	if err != nil {
		return nil, err
	}
	found.mutex.Lock()
	defer found.mutex.Unlock()
	return found.callers, nil
}

func (p *Peer) setCost(c Command) error {
	found, err := p.listener(c.Name)
	if err != nil {
		return err
	}
	return found.UpdateCostAndPrecedence(c.Cost, edge.Precedence(ziti.GetPrecedenceForLabel(c.Precedence)))
}
