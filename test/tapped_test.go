package test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/journal"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/capture/tap"
)

// tapped NAME FILE… is a program with a tap. It sends one capture after another through the
// tap, each after a line on standard input, and reports each. It ends at the end of its
// input.
func tapped() {
	if err := serveTap(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "tapped:", err)
		os.Exit(1)
	}
}

func serveTap(name string, files []string) error {
	dir, err := tap.Dir(os.Getenv)
	if err != nil {
		return err
	}
	hub := journal.New(capture.Session{Framing: "line"}, journal.Options{})
	s, err := tap.Listen(dir, tap.Info{Name: name, Command: os.Args, Controller: "stdio", Unit: "a unit"}, hub, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Println("listening")
	line := make([]byte, 1)
	for _, err := os.Stdin.Read(line); err == nil; _, err = os.Stdin.Read(line) {
		if line[0] != '\n' || len(files) == 0 {
			continue
		}
		if err := pass(hub, files[0]); err != nil {
			return err
		}
		fmt.Println("passed", files[0])
		files = files[1:]
	}
	return nil
}

func pass(w capture.Writer, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := pcapng.NewReader(f, 0)
	if err != nil {
		return err
	}
	if err := capture.Copy(w, r); err != nil && err != io.EOF {
		return err
	}
	return nil
}

// tapsend COMMAND… sends commands to the newest tap, and prints its answers.
func tapsend() {
	if err := sendToTap(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tapsend:", err)
		os.Exit(1)
	}
}

func sendToTap(commands []string) error {
	dir, err := tap.Dir(os.Getenv)
	if err != nil {
		return err
	}
	c, err := tap.Dial(context.Background(), dir, "")
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := pcapng.NewReader(c, 0)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(c, strings.Join(commands, "\n")+"\n"); err != nil {
		return err
	}
	var rec capture.Record
	for answered := 0; answered < len(commands); {
		if err := r.Next(&rec); err != nil {
			return err
		}
		if n, ok := tap.ParseNote(&rec); ok && n.Tap == tap.Answer {
			answered++
			fmt.Printf("%s\n", rec.Text)
		}
	}
	return nil
}
