// Power series as goroutines, after M. D. McIlroy: the same threads and the same messages as examples/rust/power_series.rs.
package main

import (
	"fmt"
	"os"
	"time"
)

const modulus = 1<<31 - 1

type series struct {
	ask  chan struct{}
	give chan uint64
}

func newSeries() *series {
	return &series{make(chan struct{}), make(chan uint64)}
}

func (s *series) get() uint64 {
	s.ask <- struct{}{}
	return <-s.give
}

func (s *series) put(number uint64) {
	<-s.ask
	s.give <- number
}

func inverse(number uint64) uint64 {
	power, base := uint64(1), number%modulus
	for exponent := uint64(modulus - 2); exponent > 0; exponent >>= 1 {
		if exponent&1 == 1 {
			power = power * base % modulus
		}
		base = base * base % modulus
	}
	return power
}

func getBoth(one, two *series) (a, b uint64) {
	askOne, askTwo := one.ask, two.ask
	var giveOne, giveTwo chan uint64
	for left := 4; left > 0; left-- {
		select {
		case askOne <- struct{}{}:
			askOne, giveOne = nil, one.give
		case askTwo <- struct{}{}:
			askTwo, giveTwo = nil, two.give
		case a = <-giveOne:
			giveOne = nil
		case b = <-giveTwo:
			giveTwo = nil
		}
	}
	return a, b
}

func handOut(from, first, second *series, turn chan struct{}) {
	both, swap := false, false
	select {
	case <-first.ask:
	case <-turn:
		both = true
		select {
		case <-first.ask:
		case <-second.ask:
			swap = true
		}
	}
	if swap {
		first, second = second, first
	}
	from.ask <- struct{}{}
	release := make(chan struct{})
	go handOut(from, first, second, release)
	number := <-from.give
	first.give <- number
	if !both {
		<-turn
	}
	<-second.ask
	second.give <- number
	release <- struct{}{}
}

func split(from *series) (*series, *series) {
	one, two := newSeries(), newSeries()
	splitTo(from, one, two)
	return one, two
}

func splitTo(from, one, two *series) {
	turn := make(chan struct{})
	go func() {
		go handOut(from, one, two, turn)
		turn <- struct{}{}
	}()
}

func ones() *series {
	out := newSeries()
	go func() {
		for {
			out.put(1)
		}
	}()
	return out
}

func add(one, two *series) *series {
	out := newSeries()
	go func() {
		for {
			<-out.ask
			a, b := getBoth(one, two)
			out.give <- (a + b) % modulus
		}
	}()
	return out
}

func scale(factor uint64, of *series) *series {
	out := newSeries()
	go func() {
		for {
			<-out.ask
			out.give <- factor * of.get() % modulus
		}
	}()
	return out
}

func multiply(one, two *series) *series {
	out := newSeries()
	go func() {
		<-out.ask
		a, b := getBoth(one, two)
		out.give <- a * b % modulus
		one, oneMore := split(one)
		two, twoMore := split(two)
		cross := add(scale(a, two), scale(b, one))
		<-out.ask
		out.give <- cross.get()
		all := add(cross, multiply(oneMore, twoMore))
		for {
			<-out.ask
			out.give <- all.get()
		}
	}()
	return out
}

func differentiate(of *series) *series {
	out := newSeries()
	go func() {
		<-out.ask
		of.get()
		for power := uint64(1); ; power++ {
			out.give <- power * of.get() % modulus
			<-out.ask
		}
	}()
	return out
}

func integrate(constant uint64, of *series) *series {
	out := newSeries()
	go func() {
		out.put(constant)
		for power := uint64(1); ; power++ {
			<-out.ask
			out.give <- of.get() * inverse(power) % modulus
		}
	}()
	return out
}

func exponential(of *series) *series {
	inner, outer := newSeries(), newSeries()
	splitTo(integrate(1, multiply(inner, differentiate(of))), inner, outer)
	return outer
}

func hash(coefficients int) uint64 {
	z, hash := exponential(ones()), uint64(0)
	for i := 0; i < coefficients; i++ {
		hash = (31*hash + z.get()) % modulus
	}
	return hash
}

// The time, and that of the processors.
func power(coefficients int) (float64, float64) {
	hash(coefficients)
	begun, before := time.Now(), used()
	got := hash(coefficients)
	took, cpu := perOperation(begun, 1), usedPer(before, 1)
	if coefficients == 200 && got != 1874883932 {
		fmt.Fprintln(os.Stderr, "wrong hash", got)
		os.Exit(1)
	}
	return took, cpu
}
