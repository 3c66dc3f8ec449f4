// Streams serves exec and port-forward as kubelet and containerd do, with their code, for simulated pods.
//
// A command runs on this machine: kwok, which can do that too, tells no exit code and never ends a command's input. A
// port of a pod is one of this machine, by a JSON file that maps "namespace/pod:port" to an address. "namespace/pod:path"
// is the directory of the only programs that the pod has; without one it has this machine's, but no signal gets to
// process 1, which is none of the pod's.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/creack/pty"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

const (
	idle     = 4 * time.Hour
	creation = 30 * time.Second
)

type server struct{ targets string }

func main() {
	listen := flag.String("listen", "", "address")
	targets := flag.String("targets", "", "file of addresses by namespace/pod:port")
	flag.Parse()
	log.Fatal(http.ListenAndServe(*listen, server{*targets}))
}

func (s server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) == 4 && parts[0] == "exec":
		options, err := remotecommand.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		remotecommand.ServeExec(w, r, s, parts[1]+"/"+parts[2], "", parts[3], r.Form["command"], options, idle, creation,
			remotecommand.SupportedStreamingProtocols)
	case len(parts) == 3 && parts[0] == "portForward":
		options, err := portforward.NewV4Options(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, r, s, parts[1]+"/"+parts[2], "", options, idle, creation,
			portforward.SupportedProtocols)
	default:
		http.NotFound(w, r)
	}
}

// ExecInContainer runs a command here; pod and container are in its environment.
func (s server) ExecInContainer(ctx context.Context, pod, _, container string, arguments []string, in io.Reader,
	out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	program, err := s.program(pod, arguments)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, program, arguments[1:]...)
	command.Dir = "/"
	command.Env = append(os.Environ(), "POD="+pod, "CONTAINER="+container, "TERM=xterm")
	if tty {
		err = runWithTerminal(command, in, out, resize)
	} else {
		err = run(command, in, out, errOut)
	}
	var exit *exec.ExitError
	var start *exec.Error
	switch {
	case errors.As(err, &exit):
		return utilexec.CodeExitError{Err: err, Code: exit.ExitCode()}
	case errors.As(err, &start):
		return absent(arguments[0])
	}
	return err
}

// program is what a pod has under the name of a command.
func (s server) program(pod string, arguments []string) (string, error) {
	name := arguments[0]
	targets, err := s.read()
	if err != nil {
		return "", err
	}
	directory, own := targets[pod+":path"]
	line := strings.Join(arguments, " ")
	if !own && strings.Contains(line, "kill -s ") && strings.HasSuffix(line, " 1") {
		return "", absent(name)
	}
	if !own || strings.Contains(name, "/") {
		return name, nil
	}
	path := filepath.Join(directory, name)
	if _, err := os.Stat(path); err != nil {
		return "", absent(name)
	}
	return path, nil
}

// absent says as containerd and runc do that there is no such program.
func absent(name string) error {
	return fmt.Errorf("failed to exec in container: failed to start exec: OCI runtime exec failed: exec failed: "+
		"unable to start container process: exec: %q: executable file not found in $PATH: unknown", name)
}

func (s server) read() (map[string]string, error) {
	data, err := os.ReadFile(s.targets)
	if err != nil {
		return nil, err
	}
	var targets map[string]string
	return targets, json.Unmarshal(data, &targets)
}

func run(command *exec.Cmd, in io.Reader, out, errOut io.Writer) error {
	command.Stdout, command.Stderr = out, errOut
	if in != nil {
		// Not Stdin: a command that has ended would be waited for until its input has.
		pipe, err := command.StdinPipe()
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(pipe, in)
			_ = pipe.Close()
		}()
	}
	return command.Run()
}

func runWithTerminal(command *exec.Cmd, in io.Reader, out io.Writer, resize <-chan remotecommand.TerminalSize) error {
	terminal, err := pty.Start(command)
	if err != nil {
		return err
	}
	defer terminal.Close()
	go func() {
		for size := range resize {
			_ = pty.Setsize(terminal, &pty.Winsize{Rows: size.Height, Cols: size.Width})
		}
	}()
	if in != nil {
		go func() { _, _ = io.Copy(terminal, in) }()
	}
	// Ends with an error when the last process has closed the terminal.
	_, _ = io.Copy(out, terminal)
	return command.Wait()
}

// PortForward joins a stream to the address that stands for a port of a pod, if there is one.
func (s server) PortForward(_ context.Context, pod, _ string, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	targets, err := s.read()
	if err != nil {
		return err
	}
	address, known := targets[fmt.Sprintf("%s:%d", pod, port)]
	var connection net.Conn
	if known {
		connection, err = net.Dial("tcp", address)
	}
	if !known || err != nil {
		return fmt.Errorf("failed to execute portforward in network namespace \"/var/run/netns/cni-0\": "+
			"failed to connect to localhost:%d inside namespace \"cni\", IPv4: dial tcp4 127.0.0.1:%d: connect: "+
			"connection refused", port, port)
	}
	defer connection.Close()
	// As containerd's: over when the pod's side is, or both are (internal/cri/server/sandbox_portforward_linux.go).
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(stream, connection)
		close(done)
	}()
	go func() {
		_, _ = io.Copy(connection, stream)
		_ = connection.(*net.TCPConn).CloseWrite()
	}()
	<-done
	return nil
}
