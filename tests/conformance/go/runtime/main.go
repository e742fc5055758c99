// Command runtime is the NRI half of a container runtime: the official adaptation package, steered by
// JSON lines on standard input and output. What a runtime knows (pods, containers, cgroups) lies with
// the process on the other side; this one carries hooks to the plugins and answers back.
//
// Questions that it answers: listen, close, limit, measure, the companions' (see companion.go) and every
// hook by its name, with NRI's own messages in protobuf's JSON. Questions that it asks: snapshot and
// settled around a plugin's synchronisation, UpdateContainers when a plugin pushes.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// What an older NRI does not know must not reach a plugin, so unknown fields are dropped, not kept.
var (
	fromJSON = protojson.UnmarshalOptions{DiscardUnknown: true}
	toJSON   = protojson.MarshalOptions{UseProtoNames: true}
)

type runtime struct {
	peer     *peer
	socket   string
	version  string
	mutex    sync.Mutex // guards what follows
	nri      *adaptation.Adaptation
	starting bool
	synced   *api.SynchronizeResponse // of the plugin that is being taken in
	failed   error
	others   map[string]*companion
}

func main() {
	socket := flag.String("socket", "", "path of the NRI socket")
	version := flag.String("version", "v2.4.0", "the version of containerd to be taken for")
	flag.Parse()
	r := &runtime{peer: newPeer(os.Stdout), socket: *socket, version: *version, others: map[string]*companion{}}
	nrilog.Set(&logger{r})
	if err := r.peer.serve(os.Stdin, r.answer); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (r *runtime) answer(op string, body json.RawMessage) (json.RawMessage, error) {
	switch op {
	case "listen":
		return nil, r.listen()
	case "close":
		r.adaptation().Stop()
		return nil, nil
	case "limit":
		var milliseconds int64
		err := json.Unmarshal(body, &milliseconds)
		adaptation.SetPluginRequestTimeout(time.Duration(milliseconds) * time.Millisecond)
		return nil, err
	case "measure":
		return r.measure(body)
	case "join", "leave", "push":
		return r.companions(op, body)
	}
	call, ok := hooks[op]
	if !ok {
		return nil, fmt.Errorf("this NRI has no %s", op)
	}
	reply, err := call(r.adaptation(), body)
	if err != nil {
		return nil, err
	}
	return toJSON.Marshal(reply)
}

// listen makes the socket anew, as a runtime does when it starts.
func (r *runtime) listen() error {
	nowhere := r.socket + ".none" // no plugin is launched by us
	nri, err := adaptation.New("containerd", r.version, r.synchronize, r.update,
		adaptation.WithSocketPath(r.socket),
		adaptation.WithPluginPath(nowhere),
		adaptation.WithPluginConfigPath(nowhere))
	if err != nil {
		return err
	}
	r.mutex.Lock()
	r.nri, r.starting = nri, true
	r.mutex.Unlock()
	err = nri.Start()
	r.mutex.Lock()
	r.starting = false
	r.mutex.Unlock()
	return err
}

func (r *runtime) adaptation() *adaptation.Adaptation {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.nri
}

// synchronize tells a new plugin what exists. The other side holds its lock from the snapshot until it
// hears settled, so that no hook falls between the two.
func (r *runtime) synchronize(ctx context.Context, tell adaptation.SyncCB) error {
	r.mutex.Lock()
	starting := r.starting
	r.mutex.Unlock()
	if starting { // for the plugins that a runtime launches, of which there are none
		_, err := tell(ctx, nil, nil)
		return err
	}
	body, err := r.peer.ask("snapshot", nil)
	if err != nil {
		return err
	}
	var content api.SynchronizeRequest
	if err := fromJSON.Unmarshal(body, &content); err != nil {
		return err
	}
	updates, err := tell(ctx, content.Pods, content.Containers)
	r.mutex.Lock()
	r.synced, r.failed = &api.SynchronizeResponse{Update: updates}, err
	r.mutex.Unlock()
	return err
}

// settled reports the end of a synchronisation: the plugin is asked from now on, or it was not taken.
func (r *runtime) settled() {
	r.mutex.Lock()
	reply, err := r.synced, r.failed
	r.mutex.Unlock()
	if err != nil {
		body, _ := json.Marshal(map[string]string{"error": err.Error()})
		_, _ = r.peer.ask("settled", body)
		return
	}
	body, _ := toJSON.Marshal(reply)
	_, _ = r.peer.ask("settled", body)
}

// update applies what a plugin asked for by itself.
func (r *runtime) update(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	body, err := toJSON.Marshal(&api.UpdateContainersRequest{Update: updates})
	if err != nil {
		return nil, err
	}
	var reply api.UpdateContainersResponse
	err = r.question("UpdateContainers", body, &reply)
	return reply.Failed, err
}

// question asks the other side for a message.
func (r *runtime) question(op string, body json.RawMessage, reply proto.Message) error {
	answer, err := r.peer.ask(op, body)
	if err != nil {
		return err
	}
	return fromJSON.Unmarshal(answer, reply)
}

// logger writes NRI's log to standard error. It is also the only place that shows when a plugin has
// been taken in: the adaptation says so once the plugin is in its list, and tells no callback.
type logger struct{ runtime *runtime }

func (l *logger) Debugf(context.Context, string, ...interface{}) {}

func (l *logger) Infof(_ context.Context, format string, args ...interface{}) {
	l.write("info", format, args)
}

func (l *logger) Warnf(_ context.Context, format string, args ...interface{}) {
	l.write("warning", format, args)
}

func (l *logger) Errorf(_ context.Context, format string, args ...interface{}) {
	l.write("error", format, args)
}

func (l *logger) write(level, format string, args []interface{}) {
	fmt.Fprintln(os.Stderr, level+":", fmt.Sprintf(format, args...))
	if strings.HasPrefix(format, "plugin %q connected") || strings.HasPrefix(format, "failed to synchronize plugin:") {
		l.runtime.settled()
	}
}
