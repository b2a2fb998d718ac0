package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/wirectl/wirectl/test/bench/harness"
)

// A load describes the requests to a server.
type load struct {
	request []byte
	answer  string                      // part of the answer
	read    func(r *bufio.Reader) error // one answer
	clients int
	fresh   bool // one connection per request
	time    time.Duration
}

// check sends one request, and checks the answer.
func (l load) check(addr string) {
	conn := harness.Must(net.Dial("tcp", addr))
	defer conn.Close()
	var seen bytes.Buffer
	harness.Must(conn.Write(l.request))
	if err := l.read(bufio.NewReader(io.TeeReader(conn, &seen))); err != nil {
		harness.Check(fmt.Errorf("%w: %.300q", err, seen.Bytes()))
	}
	if !bytes.Contains(seen.Bytes(), []byte(l.answer)) {
		harness.Check(fmt.Errorf("%s answers %.300q", addr, seen.Bytes()))
	}
}

// A result is the result of a round.
type result struct {
	perSecond float64
	p50       time.Duration
	errors    int
}

func (l load) run(addr string) result {
	var mu sync.Mutex
	all := []time.Duration{0}
	var res result
	var group sync.WaitGroup
	begun := time.Now()
	for range l.clients {
		group.Go(func() {
			times, errs := l.client(addr, begun.Add(l.time))
			mu.Lock()
			defer mu.Unlock()
			all = append(all, times...)
			res.errors += errs
		})
	}
	group.Wait()
	res.perSecond = float64(len(all)) / time.Since(begun).Seconds()
	res.p50 = harness.Median(all)
	return res
}

// client sends requests until the time is up, and returns how long each answer took.
func (l load) client(addr string, until time.Time) (times []time.Duration, errs int) {
	dialer := net.Dialer{KeepAlive: -1}
	r := bufio.NewReaderSize(nil, 64<<10)
	var conn net.Conn
	for begun := time.Now(); begun.Before(until); begun = time.Now() {
		if conn == nil {
			var err error
			if conn, err = dialer.Dial("tcp", addr); err != nil {
				conn = nil
				errs++
				continue
			}
			r.Reset(conn)
		}
		_, err := conn.Write(l.request)
		if err == nil {
			err = l.read(r)
		}
		if err != nil {
			errs++
		} else {
			times = append(times, time.Since(begun))
		}
		if err != nil || l.fresh {
			// A port in TIME_WAIT slows down the search for a free one.
			_ = conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
			conn = nil
		}
	}
	if conn != nil {
		conn.Close()
	}
	return times, errs
}

// readFrame reads one answer of rlm.
func readFrame(r *bufio.Reader) error {
	head, err := r.Peek(40)
	if err != nil {
		return err
	}
	if bytes.Contains(head, []byte(`"error":"`)) {
		return fmt.Errorf("an error came")
	}
	_, err = r.Discard(4 + int(binary.BigEndian.Uint32(head)))
	return err
}

// readHTTP reads one answer of HTTP.
func readHTTP(r *bufio.Reader) error {
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the status is %s", answer.Status)
	}
	return nil
}
