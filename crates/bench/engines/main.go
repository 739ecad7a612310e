// What `cargo xtask bench remote` measures in Go: one row a run, a figure a line in nanoseconds (or records a second). Engines are the caller's.
//
//	peers mutex N ENDPOINTS              concurrency.Mutex: lock and unlock
//	peers txn N ENDPOINTS                a key put if it is absent, with a lease, and deleted
//	peers handoff N MS ENDPOINTS         from unlock to the next holder, who came MS milliseconds before
//	peers server NAME PORT PEERPORT ROUTES DIRECTORY   a node of three of NATS with JetStream, which syncs each write
//	peers send-recv N URL                from a publish's begin to its receipt, one at a time
//	peers flow N URL                     records of 64 B a second, published and acknowledged at both ends
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

var out = bufio.NewWriter(os.Stdout)

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func number(text string) int { return must(strconv.Atoi(text)) }

func client(endpoints string) *clientv3.Client {
	return must(clientv3.New(clientv3.Config{Endpoints: strings.Split(endpoints, ","), DialTimeout: 5 * time.Second}))
}

func tell(since time.Time) { fmt.Fprintln(out, time.Since(since).Nanoseconds()) }

// Some that do not count come first.
const warm = 10

func mutex(n int, endpoints string) {
	ctx, session := context.Background(), must(concurrency.NewSession(client(endpoints), concurrency.WithTTL(10)))
	m := concurrency.NewMutex(session, "peers/mutex")
	for i := range n + warm {
		begun := time.Now()
		must(0, m.Lock(ctx))
		must(0, m.Unlock(ctx))
		if i >= warm {
			tell(begun)
		}
	}
}

func txn(n int, endpoints string) {
	ctx, c := context.Background(), client(endpoints)
	lease := must(c.Grant(ctx, 600))
	for i := range n + warm {
		begun := time.Now()
		put := clientv3.OpPut("peers/txn", "me", clientv3.WithLease(lease.ID))
		absent := clientv3.Compare(clientv3.CreateRevision("peers/txn"), "=", 0)
		taken := must(c.Txn(ctx).If(absent).Then(put).Commit())
		own := clientv3.Compare(clientv3.ModRevision("peers/txn"), "=", taken.Header.Revision)
		must(c.Txn(ctx).If(own).Then(clientv3.OpDelete("peers/txn")).Commit())
		if i >= warm {
			tell(begun)
		}
	}
}

func handoff(n, ms int, endpoints string) {
	ctx := context.Background()
	var all [2]*concurrency.Mutex
	for i := range all {
		all[i] = concurrency.NewMutex(must(concurrency.NewSession(client(endpoints), concurrency.WithTTL(10))), "peers/handoff")
	}
	must(0, all[0].Lock(ctx))
	for i := range n + 1 {
		holder, waiter, has := all[i%2], all[(i+1)%2], make(chan time.Time)
		go func() {
			must(0, waiter.Lock(ctx))
			has <- time.Now()
		}()
		time.Sleep(time.Duration(ms) * time.Millisecond)
		begun := time.Now()
		must(0, holder.Unlock(ctx))
		at := <-has
		if i >= 1 {
			fmt.Fprintln(out, at.Sub(begun).Nanoseconds())
		}
	}
}

func serve(name string, port, peer int, routes, directory string) {
	options := &server.Options{
		ServerName: name, Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: directory, SyncAlways: true, NoLog: true, NoSigs: true,
		Cluster: server.ClusterOpts{Name: "peers", Host: "127.0.0.1", Port: peer},
		Routes:  server.RoutesFromStr(routes),
	}
	s := must(server.NewServer(options))
	s.Start()
	s.WaitForShutdown()
}

// A work queue on three nodes.
func stream(url string) (jetstream.JetStream, jetstream.Consumer) {
	ctx := context.Background()
	js := must(jetstream.New(must(nats.Connect(url, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))), jetstream.WithPublishAsyncMaxPending(256)))
	config := jetstream.StreamConfig{
		Name: "q", Subjects: []string{"q"}, Replicas: 3, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
	}
	var err error
	for range 100 {
		var s jetstream.Stream
		try, cancel := context.WithTimeout(ctx, 10*time.Second)
		if s, err = js.CreateOrUpdateStream(try, config); err == nil {
			c := must(s.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 4096}))
			// Its leader may not be there yet.
			for {
				if _, err = js.Publish(try, "q", nil); err == nil || try.Err() != nil {
					break
				}
			}
			must(0, s.Purge(ctx))
			cancel()
			return js, c
		}
		cancel()
		time.Sleep(200 * time.Millisecond)
	}
	must(0, err)
	return nil, nil
}

func sendRecv(n int, url string) {
	js, c := stream(url)
	messages, body := must(c.Messages()), make([]byte, 64)
	for i := range n + warm {
		begun := time.Now()
		go func() { must(js.Publish(context.Background(), "q", body)) }()
		message := must(messages.Next())
		if i >= warm {
			tell(begun)
		}
		must(0, message.DoubleAck(context.Background()))
	}
}

func flow(n int, url string) {
	js, c := stream(url)
	messages, body, begun := must(c.Messages()), make([]byte, 64), time.Now()
	go func() {
		for range n {
			must(js.PublishAsync("q", body))
		}
	}()
	for range n {
		must(0, must(messages.Next()).Ack())
	}
	fmt.Fprintf(out, "%.0f\n", float64(n)/time.Since(begun).Seconds())
}

func main() {
	defer out.Flush()
	switch a := os.Args; a[1] {
	case "mutex":
		mutex(number(a[2]), a[3])
	case "txn":
		txn(number(a[2]), a[3])
	case "handoff":
		handoff(number(a[2]), number(a[3]), a[4])
	case "server":
		serve(a[2], number(a[3]), number(a[4]), a[5], a[6])
	case "send-recv":
		sendRecv(number(a[2]), a[3])
	case "flow":
		flow(number(a[2]), a[3])
	}
}
