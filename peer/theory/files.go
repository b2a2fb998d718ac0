package theory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/wirectl/wirectl/internal/inflate"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

const (
	// artifacts is the prefix of paths on this machine.
	artifacts = "/artifacts/"
	// fetchTime bounds the fetch of an input, and the upload of an output.
	fetchTime = 30 * time.Second
	// fileLimit bounds an output, and all inputs of a request together, because they are
	// held in memory at once. It is in bytes.
	fileLimit    = 64 << 20
	maxRedirects = 10
)

// Files loads inputs, and stores outputs, that a request gives by reference.
type Files struct {
	// Root is the folder for /artifacts/; "" if there is none.
	Root string
	// PlainHTTP allows this machine as a server, and http:// for loopback.
	PlainHTTP bool
	// PrivateNetwork allows private addresses of other machines.
	PrivateNetwork bool

	client *http.Client
	log    *slog.Logger // gets the errors that clients must not see; nil discards them
}

// hydrate replaces references in the inputs by their values.
func (f *Files) hydrate(ctx context.Context, runID string, inputs map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	hydrated := make(map[string]json.RawMessage, len(inputs))
	room := int64(fileLimit)
	for name, raw := range inputs {
		value, err := f.load(ctx, runID, raw, &room)
		if err != nil {
			return nil, &Error{ErrInputs, fmt.Sprintf("the input %q cannot be read: %v", name, err)}
		}
		hydrated[name] = value
	}
	return hydrated, nil
}

// A binary is the JSON form of bytes that are not text: base64.
type binary struct {
	Bytes []byte `json:"$bytes"`
}

// content returns the bytes to store for an output: text and bytes as they are, other
// values as JSON.
func content(value json.RawMessage) []byte {
	switch jsonscan.KindOf(value) {
	case jsonscan.String:
		var text string
		if json.Unmarshal(value, &text) == nil {
			return []byte(text)
		}
	case jsonscan.Object:
		members := map[string][]byte{} // fails to decode if a member is not base64
		if json.Unmarshal(value, &members) == nil && len(members) == 1 && members["$bytes"] != nil {
			return members["$bytes"]
		}
	}
	return value
}

// load returns the value that raw refers to, and subtracts its length from room.
func (f *Files) load(ctx context.Context, runID string, raw json.RawMessage, room *int64) (json.RawMessage, error) {
	place := f.place(raw)
	var data []byte
	var err error
	switch {
	case place == "":
		return raw, nil
	case strings.HasPrefix(place, artifacts):
		data, err = f.readArtifact(runID, place, *room)
	default:
		data, err = f.fetch(ctx, place, *room)
		if err != nil && !errors.Is(err, errNoRoom) {
			err = f.conceal(err, "it cannot be fetched", runID)
		}
	}
	if err != nil {
		return nil, err
	}
	*room -= int64(len(data))
	if kind := jsonscan.KindOf(bytes.TrimLeft(data, " \t\r\n")); kind == jsonscan.Object || kind == jsonscan.Array {
		if jsonscan.Valid(data) == nil {
			return data, nil
		}
	}
	if !utf8.Valid(data) {
		return jsonscan.MustMarshal(binary{data}), nil
	}
	return jsonscan.MustMarshal(string(data)), nil
}

// conceal logs why a server could not be used, and returns an error for the client. The error
// is always the same, so that it reveals no open ports of this machine or its network.
func (f *Files) conceal(err error, message, runID string) error {
	if f.log != nil {
		f.log.Warn(message, "run", runID, "error", err)
	}
	return errors.New(message)
}

// place returns the reference in a value; "" if the value is inline.
func (f *Files) place(raw json.RawMessage) string {
	var text string
	if jsonscan.KindOf(raw) != jsonscan.String || json.Unmarshal(raw, &text) != nil {
		return ""
	}
	if strings.HasPrefix(text, "https://") || strings.HasPrefix(text, artifacts) || f.isPlain(text) {
		return text
	}
	return ""
}

func (f *Files) isPlain(text string) bool {
	if !f.PlainHTTP || !strings.HasPrefix(text, "http://") {
		return false
	}
	u, err := url.Parse(text)
	return err == nil && (u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1" || u.Hostname() == "::1")
}

func (f *Files) fetch(ctx context.Context, address string, room int64) (data []byte, err error) {
	err = f.sendRequest(ctx, http.MethodGet, address, nil, func(resp *http.Response) error {
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("the server answers %s", resp.Status)
		}
		data, err = inflate.ReadAll(resp.Body, room, errNoRoom)
		return err
	})
	return data, err
}

// sendRequest makes a request and passes its response to answered, within fetchTime.
func (f *Files) sendRequest(ctx context.Context, method, address string, body []byte, answered func(*http.Response) error) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return errors.New("its URL is invalid")
	}
	if method == http.MethodPut {
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return unreachable(err)
	}
	defer resp.Body.Close()
	return answered(resp)
}

// unreachable removes the URL from an error, because its signature is a secret.
func unreachable(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = of.Err
	}
	return fmt.Errorf("the server cannot be reached: %w", err)
}

var errNoRoom = fmt.Errorf("the inputs of a request exceed the limit of %d bytes", fileLimit)

// store stores the outputs that have a destination, and replaces them by it in the answer.
func (f *Files) store(ctx context.Context, runID string, outputs, places map[string]json.RawMessage) error {
	for name, value := range outputs {
		place := f.place(places[name])
		if place == "" {
			continue
		}
		data := content(value)
		var err error
		if text := string(data); text == place || text == withoutQuery(place) {
			// The tool has stored it itself.
		} else if strings.HasPrefix(place, artifacts) {
			err = f.writeArtifact(runID, place, data)
		} else {
			err = f.put(ctx, place, data)
			if err != nil {
				err = f.conceal(err, "its server did not accept it", runID)
			}
		}
		if err != nil {
			return &Error{ErrRuntime, fmt.Sprintf("the output %q cannot be stored: %v", name, err)}
		}
		outputs[name] = jsonscan.MustMarshal(withoutQuery(place))
	}
	return nil
}

// withoutQuery removes the signature of a URL.
func withoutQuery(place string) string {
	before, _, _ := strings.Cut(place, "?")
	return before
}

func (f *Files) put(ctx context.Context, address string, data []byte) error {
	return f.sendRequest(ctx, http.MethodPut, address, data, func(resp *http.Response) error {
		if resp.StatusCode >= 300 {
			return fmt.Errorf("the server answers %s", resp.Status)
		}
		return nil
	})
}

// artifact opens the artifacts folder of a run, and creates it if create is set. It returns the
// folder and the relative name of a path. No name leads out of an [os.Root], even through
// links.
func (f *Files) artifact(runID, place string, create bool) (*os.Root, string, error) {
	if f.Root == "" {
		return nil, "", errors.New("this runtime keeps no artifacts")
	}
	name, ok := strings.CutPrefix(place, artifacts+runID+"/")
	if !ok || !isSegment(runID) || !inside(name) {
		return nil, "", fmt.Errorf("%q is not among the artifacts of the run", place)
	}
	all, err := os.OpenRoot(f.Root)
	if err != nil {
		return nil, "", errors.New("the artifacts are missing")
	}
	defer all.Close()
	if create {
		if err := all.Mkdir(runID, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, "", reason(err)
		}
	}
	if info, err := all.Lstat(runID); err != nil {
		return nil, "", reason(err)
	} else if !info.IsDir() { // as a link it would lead to another run
		return nil, "", errors.New("the run's artifacts are not a folder")
	}
	root, err := all.OpenRoot(runID)
	return root, name, reason(err)
}

// inside reports whether a name stays in its folder and names a file.
func inside(name string) bool {
	return fs.ValidPath(name) && name != "." && path.Clean(name) == name && !strings.ContainsAny(name, "\\\x00")
}

func (f *Files) readArtifact(runID, place string, room int64) ([]byte, error) {
	root, name, err := f.artifact(runID, place, false)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := regular(root, name); err != nil {
		return nil, err
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, reason(err)
	}
	defer file.Close()
	data, err := inflate.ReadAll(file, room, errNoRoom)
	return data, reason(err)
}

func (f *Files) writeArtifact(runID, place string, data []byte) error {
	root, name, err := f.artifact(runID, place, true)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return reason(err)
	}
	if err := regular(root, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return reason(root.WriteFile(name, data, 0o666))
}

// regular returns an error unless a name is that of a regular file: opening a pipe would block.
func regular(root *os.Root, name string) error {
	info, err := root.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a file")
	}
	return reason(err)
}

// reason removes the path on this machine from an error.
func reason(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return of.Err
	}
	return err
}
