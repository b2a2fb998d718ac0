package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/output"
	"github.com/wirectl/wirectl/internal/fd"
	"github.com/wirectl/wirectl/internal/wait"
)

// saveEvery is how often the file is written. A crash loses no more than that.
const saveEvery = time.Second

// A spentFile stores the use of budgets for the next broker.
type spentFile struct {
	name   string
	lock   *os.File
	broker *broker.Broker
	warn   func(string)
	warned bool
	stop   context.CancelFunc
	group  sync.WaitGroup
}

// maxSpentFile bounds the file, in bytes.
const maxSpentFile = 16 << 20

// spentName is the file in the user's state folder.
func spentName(getenv func(string) string) (string, error) {
	folder, err := history.Open(getenv)
	if err != nil {
		return "", fmt.Errorf("cannot store what budgets have spent: %w; or name another file with spent: FILE in the configuration", err)
	}
	return filepath.Join(filepath.Dir(folder.Dir), "broker", "spent.json"), nil
}

// keepSpent restores a broker's use of budgets, and stores it from now on.
func keepSpent(name string, b *broker.Broker, warn func(string)) (*spentFile, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, err
	}
	own, err := os.OpenFile(name+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if locked, err := fd.TryLock(own); err != nil || !locked {
		own.Close()
		if err == nil {
			err = errors.New("another broker keeps its budgets there: name another file as spent: FILE in the configuration")
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	spent, err := readSpent(name)
	if err != nil {
		own.Close()
		return nil, err
	}
	b.Spend(spent)
	ctx, stop := context.WithCancel(context.Background())
	f := &spentFile{name: name, lock: own, broker: b, warn: warn, stop: stop}
	f.group.Go(func() { f.keep(ctx) })
	return f, nil
}

func readSpent(name string) (spent map[string]broker.Spent, err error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Size() > maxSpentFile:
		return nil, fmt.Errorf("%s: not a list of spent budgets: %d bytes; remove it to start at zero", name, info.Size())
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &spent); err != nil {
		return nil, fmt.Errorf("%s: not a list of spent budgets: %w; remove it to start at zero", name, err)
	}
	for of, s := range spent {
		if s.Calls < 0 || s.Tokens < 0 || s.Cost < 0 {
			return nil, fmt.Errorf("%s: %s has spent less than nothing; remove it to start at zero", name, of)
		}
	}
	return spent, nil
}

func (f *spentFile) keep(ctx context.Context) {
	for wait.For(ctx, saveEvery) == nil {
		f.save()
	}
}

// save writes the file atomically, if the use of budgets has changed.
func (f *spentFile) save() {
	spent, changed := f.broker.Spent()
	if !changed {
		return
	}
	if err := replace(f.name, spent); err != nil && !f.warned {
		f.warned = true
		f.warn(fmt.Sprintf("what budgets have spent is not stored: %v", err))
	}
}

func replace(name string, spent map[string]broker.Spent) error {
	data, err := json.MarshalIndent(spent, "", "  ")
	if err != nil {
		return err
	}
	file, err := output.Begin(name)
	if err != nil {
		return err
	}
	if _, err = file.Write(append(data, '\n')); err == nil {
		err = file.Sync() // after a power cut the file must not be empty
	}
	return errors.Join(err, file.Close(err == nil))
}

// Close writes the file for the last time.
func (f *spentFile) Close() {
	if f == nil {
		return
	}
	f.stop()
	f.group.Wait()
	f.save()
	_ = fd.CloseLocked(f.lock)
}
