//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// A load is how a server is asked.
type load struct {
	addr    string
	request []byte
	answer  string                      // is in the answer
	read    func(r *bufio.Reader) error // one answer
	clients int
	deep    int  // requests at once on a connection
	fresh   bool // a connection a request
	time    time.Duration
}

// check asks once, and looks at the answer.
func (l load) check(addr string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	var seen bytes.Buffer
	r := bufio.NewReader(io.TeeReader(conn, &seen))
	if _, err := conn.Write(l.request); err != nil {
		return err
	}
	if err := l.read(r); err != nil {
		return err
	}
	if !bytes.Contains(seen.Bytes(), []byte(l.answer)) {
		return fmt.Errorf("it answers %.300q", seen.Bytes())
	}
	return nil
}

// A result is what came of it.
type result struct {
	perSecond float64
	p50, p99  time.Duration
	errors    int
	requests  int
}

func (l load) run() result {
	var mu sync.Mutex
	var all []time.Duration
	var res result
	var group sync.WaitGroup
	start := time.Now()
	for range l.clients {
		group.Go(func() {
			times, errs := l.client(start.Add(l.time))
			mu.Lock()
			defer mu.Unlock()
			all = append(all, times...)
			res.errors += errs
		})
	}
	group.Wait()
	took := time.Since(start)
	slices.Sort(all)
	res.requests = len(all) * max(l.deep, 1)
	res.perSecond = float64(res.requests) / took.Seconds()
	if len(all) > 0 {
		res.p50, res.p99 = all[len(all)/2], all[len(all)*99/100]
	}
	return res
}

// client asks until the time is up, and returns how long each answer, or each
// round of deep ones, took.
func (l load) client(until time.Time) (times []time.Duration, errs int) {
	deep := max(l.deep, 1)
	request := bytes.Repeat(l.request, deep)
	var conn net.Conn
	var r *bufio.Reader
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	for {
		begin := time.Now()
		if begin.After(until) {
			return times, errs
		}
		if conn == nil {
			var err error
			if conn, err = dialer.Dial("tcp", l.addr); err != nil {
				errs++
				continue
			}
			if r == nil {
				r = bufio.NewReaderSize(conn, 64<<10)
			} else {
				r.Reset(conn)
			}
		}
		err := l.round(conn, r, request, deep)
		if err != nil {
			errs++
		} else {
			times = append(times, time.Since(begin))
		}
		if err != nil || l.fresh {
			// A port that is left waiting is in the way of the next search for
			// a free one, which took longer than the request.
			_ = conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
			conn = nil
		}
	}
}

// dialer does no more than it has to: the time that clients take is not there for
// the server beside them.
var dialer = net.Dialer{KeepAlive: -1}

func (l load) round(conn net.Conn, r *bufio.Reader, request []byte, deep int) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	for range deep {
		if err := l.read(r); err != nil {
			return err
		}
	}
	return nil
}

// readFrame reads one answer of rlm.
func readFrame(r *bufio.Reader) error {
	head, err := r.Peek(4)
	if err != nil {
		return err
	}
	n := int(binary.BigEndian.Uint32(head))
	if at, err := r.Peek(min(4+n, 40)); err == nil && bytes.Contains(at, []byte(`"error":"`)) {
		return fmt.Errorf("an error came")
	}
	_, err = r.Discard(4 + n)
	return err
}

// readHTTP reads one answer of HTTP with a length, or in chunks.
func readHTTP(r *bufio.Reader) error {
	length, status, chunked := 0, false, false
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if !status {
			if !bytes.Contains(line, []byte(" 200 ")) {
				return fmt.Errorf("the status is %s", line)
			}
			status = true
			continue
		}
		if len(line) <= 2 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("content-length")):
			length, _ = strconv.Atoi(string(bytes.TrimSpace(value)))
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			chunked = true
		}
	}
	if !chunked {
		_, err := r.Discard(length)
		return err
	}
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return err
		}
		if _, err := r.Discard(int(n) + 2); err != nil || n == 0 {
			return err
		}
	}
}
