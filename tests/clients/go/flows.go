// Flows of gomemcache against one address: flows HOST PORT. One line per flow: passed, failed or skipped.
// FLOWS_CA names a file with the authority of a server that speaks TLS. FLOWS_CERT and FLOWS_KEY are files with what the client shows to
// one that wants a certificate. FLOWS_LOGIN is what the first request of each connection says to one that wants a login: a name, a space,
// a password.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/bradfitz/gomemcache/memcache"
)

type flow struct {
	name string
	run  func(*memcache.Client) error
}

// cannot says why this client has no such call.
type cannot string

func (reason cannot) Error() string { return string(reason) }

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: flows HOST PORT")
		os.Exit(2)
	}
	client := memcache.New(os.Args[1] + ":" + os.Args[2])
	client.Timeout = 20e9
	client.MaxIdleConns = 16
	if err := secure(client, os.Getenv("FLOWS_LOGIN")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	for _, flow := range flows {
		report(flow.name, flow.run(client))
	}
}

type dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// secure lets the client's connections begin with TLS, with a login, or with one in the other; with neither they are as they were.
func secure(client *memcache.Client, login string) error {
	var through dialer = &net.Dialer{}
	if authority := os.Getenv("FLOWS_CA"); authority != "" {
		config, err := trusting(authority)
		if err != nil {
			return err
		}
		through = &tls.Dialer{Config: config}
	} else if login == "" {
		return nil
	}
	client.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := through.DialContext(ctx, network, address)
		if err != nil || login == "" {
			return connection, err
		}
		if err := logIn(connection, login); err != nil {
			connection.Close()
			return nil, err
		}
		return connection, nil
	}
	return nil
}

// trusting is what a client goes by that trusts an authority, and shows a certificate if it has one.
func trusting(authority string) (*tls.Config, error) {
	pem, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate", authority)
	}
	config := &tls.Config{RootCAs: roots, ServerName: "localhost"}
	if file := os.Getenv("FLOWS_CERT"); file != "" {
		shown, err := tls.LoadX509KeyPair(file, os.Getenv("FLOWS_KEY"))
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{shown}
	}
	return config, nil
}

func logIn(connection net.Conn, login string) error {
	if _, err := fmt.Fprintf(connection, "set login 0 0 %d\r\n%s\r\n", len(login), login); err != nil {
		return err
	}
	answer := make([]byte, len("STORED\r\n"))
	if _, err := io.ReadFull(connection, answer); err != nil {
		return err
	}
	if string(answer) != "STORED\r\n" {
		return fmt.Errorf("the login was answered %q", answer)
	}
	return nil
}

func report(name string, err error) {
	var reason cannot
	switch {
	case err == nil:
		fmt.Println("passed " + name)
	case errors.As(err, &reason):
		fmt.Printf("skipped %s: %s\n", name, reason)
	default:
		fmt.Printf("failed %s: %s\n", name, strings.ReplaceAll(err.Error(), "\n", " "))
	}
}

var flows = []flow{
	{"set and get", setAndGet},
	{"absent key", absentKey},
	{"flags", flags},
	{"multi-get", multiGet},
	{"add", add},
	{"replace", replace},
	{"append and prepend", appendAndPrepend},
	{"cas", cas},
	{"incr and decr", incrAndDecr},
	{"incr of text", incrOfText},
	{"touch", touch},
	{"get and touch", getAndTouch},
	{"expired at once", expiredAtOnce},
	{"delete", deletion},
	{"noreply", func(*memcache.Client) error { return cannot("the client always waits for a reply") }},
	{"empty value", emptyValue},
	{"values like the protocol", valuesLikeTheProtocol},
	{"large value", largeValue},
	{"value too large", valueTooLarge},
	{"longest key", longestKey},
	{"key too long", keyTooLong},
	{"version", func(client *memcache.Client) error { return client.Ping() }},
	{"stats", func(*memcache.Client) error { return cannot("the client has no stats") }},
	{"concurrency", concurrency},
	{"flush", flush},
}

func setAndGet(client *memcache.Client) error {
	return first(set(client, "set:key", "value"), holds(client, "set:key", "value"),
		set(client, "set:key", "other"), holds(client, "set:key", "other"))
}

func absentKey(client *memcache.Client) error {
	_, err := client.Get("absent:key")
	return expect(err, memcache.ErrCacheMiss)
}

func flags(client *memcache.Client) error {
	if err := client.Set(&memcache.Item{Key: "flags:key", Value: []byte("value"), Flags: 1<<32 - 1}); err != nil {
		return err
	}
	item, err := client.Get("flags:key")
	if err == nil && item.Flags != 1<<32-1 {
		return fmt.Errorf("flags %d", item.Flags)
	}
	return err
}

func multiGet(client *memcache.Client) error {
	var keys []string
	for number := 0; number < 300; number++ {
		keys = append(keys, fmt.Sprintf("multi:%d", number))
		if err := set(client, keys[number], "value of "+keys[number]); err != nil {
			return err
		}
	}
	found, err := client.GetMulti(append(keys, "multi:absent"))
	if err != nil {
		return err
	}
	if len(found) != len(keys) {
		return fmt.Errorf("%d values for %d keys", len(found), len(keys))
	}
	for _, key := range keys {
		if item, ok := found[key]; !ok || string(item.Value) != "value of "+key {
			return fmt.Errorf("%s: %v", key, item)
		}
	}
	return nil
}

func add(client *memcache.Client) error {
	item := &memcache.Item{Key: "add:key", Value: []byte("first")}
	again := &memcache.Item{Key: "add:key", Value: []byte("second")}
	return first(client.Add(item), expect(client.Add(again), memcache.ErrNotStored), holds(client, "add:key", "first"))
}

func replace(client *memcache.Client) error {
	item := &memcache.Item{Key: "replace:key", Value: []byte("new")}
	return first(expect(client.Replace(item), memcache.ErrNotStored), set(client, "replace:key", "old"),
		client.Replace(item), holds(client, "replace:key", "new"))
}

func appendAndPrepend(client *memcache.Client) error {
	end := &memcache.Item{Key: "append:key", Value: []byte("-end")}
	start := &memcache.Item{Key: "append:key", Value: []byte("start-")}
	return first(
		expect(client.Append(end), memcache.ErrNotStored),
		expect(client.Prepend(start), memcache.ErrNotStored),
		set(client, "append:key", "middle"),
		client.Append(end),
		client.Prepend(start),
		holds(client, "append:key", "start-middle-end"),
	)
}

func cas(client *memcache.Client) error {
	if err := set(client, "cas:key", "first"); err != nil {
		return err
	}
	item, err := client.Get("cas:key")
	if err != nil {
		return err
	}
	late := *item
	item.Value, late.Value = []byte("second"), []byte("third")
	if err := client.CompareAndSwap(item); err != nil {
		return err
	}
	return first(
		expect(client.CompareAndSwap(&late), memcache.ErrCASConflict),
		holds(client, "cas:key", "second"),
		client.Delete("cas:key"),
		expect(client.CompareAndSwap(&late), memcache.ErrCacheMiss),
	)
}

func incrAndDecr(client *memcache.Client) error {
	if _, err := client.Increment("number:absent", 1); err != memcache.ErrCacheMiss {
		return fmt.Errorf("incr of an absent key: %v", err)
	}
	if err := set(client, "number:key", "10"); err != nil {
		return err
	}
	for _, step := range []struct {
		run    func(string, uint64) (uint64, error)
		amount uint64
		wanted uint64
	}{
		{client.Increment, 5, 15}, {client.Decrement, 3, 12}, {client.Decrement, 100, 0},
		{client.Increment, 1<<64 - 1, 1<<64 - 1}, {client.Increment, 2, 1},
	} {
		if found, err := step.run("number:key", step.amount); err != nil || found != step.wanted {
			return fmt.Errorf("%d and %v instead of %d", found, err, step.wanted)
		}
	}
	return nil
}

func incrOfText(client *memcache.Client) error {
	if err := set(client, "text:key", "text"); err != nil {
		return err
	}
	if _, err := client.Increment("text:key", 1); err == nil || !strings.Contains(err.Error(), "non-numeric") {
		return fmt.Errorf("answered %v", err)
	}
	return holds(client, "text:key", "text")
}

func touch(client *memcache.Client) error {
	return first(
		expect(client.Touch("touch:key", 100), memcache.ErrCacheMiss),
		set(client, "touch:key", "value"),
		client.Touch("touch:key", 100),
		holds(client, "touch:key", "value"),
		client.Touch("touch:key", -1),
		absent(client, "touch:key"),
	)
}

func getAndTouch(client *memcache.Client) error {
	if err := set(client, "gat:key", "value"); err != nil {
		return err
	}
	item, err := client.GetAndTouch("gat:key", -1)
	if err != nil || string(item.Value) != "value" {
		return fmt.Errorf("%v, %v", item, err)
	}
	_, err = client.GetAndTouch("gat:key", 100)
	return expect(err, memcache.ErrCacheMiss)
}

func expiredAtOnce(client *memcache.Client) error {
	item := &memcache.Item{Key: "expired:key", Value: []byte("value"), Expiration: -1}
	return first(client.Set(item), absent(client, "expired:key"))
}

func deletion(client *memcache.Client) error {
	return first(
		expect(client.Delete("delete:key"), memcache.ErrCacheMiss),
		set(client, "delete:key", "value"),
		client.Delete("delete:key"),
		absent(client, "delete:key"),
	)
}

func emptyValue(client *memcache.Client) error {
	return first(set(client, "empty:key", ""), holds(client, "empty:key", ""))
}

func valuesLikeTheProtocol(client *memcache.Client) error {
	every := make([]byte, 256)
	for index := range every {
		every[index] = byte(index)
	}
	for _, value := range []string{"END\r\n", "\r\n", "STORED\r\nEND\r\n", "VALUE key 0 3\r\nabc\r\n", string(every)} {
		if err := first(set(client, "binary:key", value), holds(client, "binary:key", value)); err != nil {
			return err
		}
	}
	return nil
}

func largeValue(client *memcache.Client) error {
	value := make([]byte, 1_000_000)
	if _, err := rand.Read(value); err != nil {
		return err
	}
	return first(set(client, "large:key", string(value)), holds(client, "large:key", string(value)))
}

func valueTooLarge(client *memcache.Client) error {
	err := set(client, "too-large:key", string(make([]byte, 2<<20)))
	if err == nil || !strings.Contains(err.Error(), "object too large for cache") {
		return fmt.Errorf("answered %v", err)
	}
	return first(set(client, "too-large:key", "value"), holds(client, "too-large:key", "value"))
}

func longestKey(client *memcache.Client) error {
	key := "longest:" + strings.Repeat("k", 242)
	return first(set(client, key, "value"), holds(client, key, "value"))
}

func keyTooLong(client *memcache.Client) error {
	if err := set(client, strings.Repeat("k", 251), "value"); err == nil {
		return errors.New("stored")
	}
	return first(set(client, "too-long:key", "value"), holds(client, "too-long:key", "value"))
}

func concurrency(client *memcache.Client) error {
	var wait sync.WaitGroup
	failures := make([]error, 8)
	for worker := range failures {
		wait.Add(1)
		go func(worker int) {
			defer wait.Done()
			for turn := 0; turn < 250 && failures[worker] == nil; turn++ {
				key := fmt.Sprintf("concurrency:%d:%d", worker, turn%10)
				value := fmt.Sprintf("%d %d", worker, turn)
				failures[worker] = first(set(client, key, value), holds(client, key, value))
			}
		}(worker)
	}
	wait.Wait()
	return first(failures...)
}

func flush(client *memcache.Client) error {
	return first(set(client, "flush:key", "value"), client.FlushAll(), absent(client, "flush:key"))
}

// first is the first error of steps that were run in order; a later step of a failed flow does no harm.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func set(client *memcache.Client, key, value string) error {
	return client.Set(&memcache.Item{Key: key, Value: []byte(value)})
}

func holds(client *memcache.Client, key, value string) error {
	item, err := client.Get(key)
	if err != nil {
		return fmt.Errorf("get %.40s: %w", key, err)
	}
	if item.Key != key || !bytes.Equal(item.Value, []byte(value)) {
		return fmt.Errorf("get %.40s: %.60q under %.40s instead of %.60q", key, item.Value, item.Key, value)
	}
	return nil
}

func absent(client *memcache.Client, key string) error {
	_, err := client.Get(key)
	return expect(err, memcache.ErrCacheMiss)
}

func expect(found, wanted error) error {
	if errors.Is(found, wanted) {
		return nil
	}
	return fmt.Errorf("%v instead of %v", found, wanted)
}
