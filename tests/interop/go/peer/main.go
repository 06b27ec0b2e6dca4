// A client that executes commands: it hosts and dials services and reports the results.
//
// It reads one command per line from stdin, a JSON object with an "id" and an action "do", and answers each with one line, {"id", "done"} or
// {"id", "failure"}, in the order in which they end: commands run in parallel. It ends at the end of stdin. python/peer.py has the
// same commands. The program is built with both generations of the library; the differences are in flow_*.go.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/openziti/sdk-golang/ziti"
)

// Command is one line of stdin.
type Command struct {
	ID       int    `json:"id"`
	Do       string `json:"do"`
	Name     string `json:"name"` // of a connection or a listener
	Service  string `json:"service"`
	Identity string `json:"identity"` // the identity file
	Jwt      string `json:"jwt"`
	// What a host does with connections: "echo" them (the default), leave them "unread", or leave the dial "unanswered".
	Behaviour   string `json:"behaviour"`
	Bytes       int    `json:"bytes"`
	Chunk       int    `json:"chunk"` // bytes in one write
	Connections int    `json:"connections"`
	Leave       bool   `json:"leave"`       // once as many bytes came back, without waiting for the end
	FlowControl bool   `json:"flowControl"` // in the library
	Cost        uint16 `json:"cost"`
	Precedence  string `json:"precedence"`
	Instance    string `json:"instance"` // of an addressable terminator
	AppData     string `json:"appData"`
	Millis      int    `json:"millis"`
}

// Peer is the state of the commands.
type Peer struct {
	context     ziti.Context
	mutex       sync.Mutex
	listeners   map[string]*listener
	connections map[string]*connection
}

func (p *Peer) act(c Command) (any, error) {
	switch c.Do {
	case "enroll":
		return nil, enroll(c.Jwt, c.Identity)
	case "load":
		return nil, p.load(c.Identity)
	case "host":
		return nil, p.host(c)
	case "unhost":
		return nil, p.unhost(c.Name)
	case "callers":
		return p.callers(c.Name)
	case "cost":
		return nil, p.setCost(c)
	case "carry":
		return p.carry(c), nil
	case "open":
		return p.open(c)
	case "echo":
		return nil, p.echo(c)
	case "fill":
		return p.fill(c)
	case "ended":
		return p.ended(c)
	case "close":
		return nil, p.close(c.Name)
	}
	return nil, fmt.Errorf("there is no command %q", c.Do)
}

func (p *Peer) load(identity string) error {
	config, err := ziti.NewConfigFromFile(identity)
	if err != nil {
		return err
	}
	if p.context, err = ziti.NewContext(config); err != nil {
		return err
	}
	return p.context.Authenticate()
}

func main() {
	peer := &Peer{listeners: map[string]*listener{}, connections: map[string]*connection{}}
	lines, out := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	var mutex sync.Mutex
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		var command Command
		if err := json.Unmarshal(line, &command); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		go func() {
			done, err := peer.act(command)
			answer := map[string]any{"id": command.ID, "done": done}
			if err != nil {
				answer = map[string]any{"id": command.ID, "failure": err.Error()}
			}
			mutex.Lock()
			defer mutex.Unlock()
			_ = out.Encode(answer)
		}()
	}
}
