// What `cargo xtask bench thread` measures in Go: one row a run, whose figure it prints. GOMAXPROCS is the caller's.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

func perOperation(begun time.Time, operations int) float64 {
	return float64(time.Since(begun).Nanoseconds()) / float64(operations)
}

// used is the processor time of this process.
func used() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

func usedPer(begun int64, operations int) float64 {
	return float64(used()-begun) / float64(operations)
}

func rendezvous() float64 {
	const trips = 200_000
	there, back := make(chan int), make(chan int)
	go func() {
		for number := range there {
			back <- number
		}
	}()
	begun := used()
	for i := 0; i < trips; i++ {
		there <- i
		<-back
	}
	return usedPer(begun, trips)
}

func alt() float64 {
	const messages = 300_000
	var all [3]chan int
	for i := range all {
		all[i] = make(chan int)
		go func(to chan int) {
			for {
				to <- 1
			}
		}(all[i])
	}
	sum := 0
	begun := used()
	for i := 0; i < messages; i++ {
		select {
		case n := <-all[0]:
			sum += n
		case n := <-all[1]:
			sum += n
		case n := <-all[2]:
			sum += n
		}
	}
	return usedPer(begun, messages)
}

func create() float64 {
	const rounds, batch = 200, 1000
	var count atomic.Int64
	round := func() {
		count.Store(0)
		for i := 0; i < batch; i++ {
			go func() { count.Add(1) }()
		}
		for count.Load() < batch {
			runtime.Gosched()
		}
	}
	round()
	begun := used()
	for i := 0; i < rounds; i++ {
		round()
	}
	return usedPer(begun, rounds*batch)
}

func yield(threads int) float64 {
	each := 2_000_000 / threads
	var came, done atomic.Int64
	var start atomic.Bool
	for i := 0; i < threads; i++ {
		go func() {
			came.Add(1)
			for !start.Load() {
				runtime.Gosched()
			}
			for i := 0; i < each; i++ {
				runtime.Gosched()
			}
			done.Add(1)
		}()
	}
	for came.Load() < int64(threads) {
		runtime.Gosched()
	}
	begun := used()
	start.Store(true)
	for done.Load() < int64(threads) {
		runtime.Gosched()
	}
	return usedPer(begun, each*threads)
}

func resident() int {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		panic(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		panic(err)
	}
	return pages * os.Getpagesize()
}

func memory(threads int) float64 {
	before := resident()
	never := make(chan int)
	var came sync.WaitGroup
	came.Add(threads)
	for i := 0; i < threads; i++ {
		go func() {
			came.Done()
			<-never
		}()
	}
	came.Wait()
	return float64(resident()-before) / float64(threads)
}

func make_() float64 {
	const times = 1_000_000
	var last chan int
	begun := used()
	for i := 0; i < times; i++ {
		last = make(chan int)
		runtime.KeepAlive(last)
	}
	return usedPer(begun, times)
}

func compute(steps uint64) uint64 {
	x := uint64(88172645463325252)
	for i := uint64(0); i < steps; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

func fan() float64 {
	const threads, steps = 8, 30_000_000
	results := make(chan uint64)
	begun := time.Now()
	for i := 0; i < threads; i++ {
		go func() { results <- compute(steps) }()
	}
	for i := 0; i < threads; i++ {
		<-results
	}
	return perOperation(begun, threads)
}

// read is a read of a block by one of 32 goroutines, which read the same blocks as the other peers' threads do: in processor time, or from the
// device in time on the wall.
func read(path string, direct bool) float64 {
	const block, blocks, threads = 4096, 16 * 1024, 32
	flags, reads := os.O_RDONLY, 128_000
	if direct {
		flags, reads = flags|syscall.O_DIRECT, 3_200
	}
	file, err := os.OpenFile(path, flags, 0)
	if err != nil {
		panic(err)
	}
	round := func(each int) {
		var over sync.WaitGroup
		for reader := 0; reader < threads; reader++ {
			over.Add(1)
			go func(reader int) {
				defer over.Done()
				room := make([]byte, 2*block)
				skip := -int(uintptr(unsafe.Pointer(&room[0]))) & (block - 1)
				to := room[skip : skip+block]
				x := uint64(88172645463325252) ^ uint64(reader+1)<<32
				for i := 0; i < each; i++ {
					x ^= x << 13
					x ^= x >> 7
					x ^= x << 17
					at := int64(x % blocks)
					if n, err := file.ReadAt(to, at*block); n != block || int64(to[0]) != at%251 {
						panic(fmt.Sprint("block ", at, ": ", n, " bytes, ", to[0], ", ", err))
					}
				}
			}(reader)
		}
		over.Wait()
	}
	round(1)
	begun, then := used(), time.Now()
	round(reads / threads)
	if direct {
		return perOperation(then, reads)
	}
	return usedPer(begun, reads)
}

func serve(root string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	panic(http.Serve(listener, http.FileServer(http.Dir(root))))
}

func main() {
	number := 0
	if len(os.Args) > 2 {
		number, _ = strconv.Atoi(os.Args[2])
	}
	var figure float64
	switch os.Args[1] {
	case "power":
		figure, _ = power(number)
	case "powercpu":
		_, figure = power(number)
	case "rendezvous":
		figure = rendezvous()
	case "alt":
		figure = alt()
	case "create":
		figure = create()
	case "yield":
		figure = yield(number)
	case "memory":
		figure = memory(number)
	case "make":
		figure = make_()
	case "fan":
		figure = fan()
	case "read":
		figure = read(os.Args[2], false)
	case "readdirect":
		figure = read(os.Args[2], true)
	case "http":
		serve(os.Args[2])
	default:
		fmt.Fprintln(os.Stderr, "what?")
		os.Exit(2)
	}
	fmt.Println(figure)
}
