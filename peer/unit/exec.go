package unit

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/transport"
)

// execGrace is how long a command whose prompt was cancelled may take to end after its input
// is closed, and again after SIGTERM.
const execGrace = 200 * time.Millisecond

// Exec runs a command for each prompt. The prompt is its standard input, and its standard
// output is streamed as the answer. A cancel ends the command and all processes of its group. A
// status other than 0 is the error EXEC_FAILED.
type Exec struct {
	// Argv is the program and its arguments.
	Argv []string
	// Log, if not nil, gets the standard error of the command.
	Log *slog.Logger
}

// ExecFailed is the code of a command that failed.
const ExecFailed = "EXEC_FAILED"

// Answer answers p; see [Agent].
func (e Exec) Answer(ctx context.Context, p *Prompt, emit func(string) error) (map[string]string, error) {
	process, err := transport.Start(ctx, e.Argv, transport.Options{Grace: execGrace})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { process.Close() })
	defer stop()
	return nil, e.runCommand(ctx, process, p, emit)
}

func (e Exec) runCommand(ctx context.Context, process transport.Process, p *Prompt, emit func(string) error) error {
	var others sync.WaitGroup
	defer others.Wait()
	defer process.Close() // processes that the command left behind may hold its standard error open
	others.Go(func() {
		// A command need not read its input.
		_, _ = io.WriteString(process, p.Content)
		_ = process.CloseWrite()
	})
	others.Go(func() { transport.LogStderr(process, e.Log, "prompt", p.ID) })
	err := emitText(process, emit)
	if err != nil {
		process.Close()
	}
	exit, waitErr := process.Wait()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case waitErr != nil:
		return waitErr
	case exit.Code() != 0:
		return errorf(ExecFailed, "the command %v", exit)
	}
	return nil
}

// emitText emits the text of r as it arrives, without splitting a character.
func emitText(r io.Reader, emit func(string) error) error {
	buf := make([]byte, 32<<10)
	kept := 0
	for {
		n, err := r.Read(buf[kept:])
		n += kept
		whole := n
		if err == nil {
			whole -= render.CutRune(buf[:n])
		}
		if whole > 0 {
			if err := emit(string(buf[:whole])); err != nil {
				return err
			}
		}
		kept = copy(buf, buf[whole:n])
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("the command's output: %w", err)
		}
	}
}
