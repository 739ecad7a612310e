/*
 * Power series as processes: a thread for each series, and the coefficients go through channels without buffers.
 *
 *     cc -O2 -o power_series power_series.c $(pkg-config --cflags --libs chappe) && ./power_series 200
 *
 * Computes Exp(Ones) modulo 2^31 - 1: e to the power x + x^2 + x^3 + ..., and prints a hash of its first coefficients (1874883932 of 200). After
 * M. D. McIlroy, "Squinting at power series" (1990), with which Plan 9's semaphores were measured (plan9-semaphores, 4): almost all that it does is to
 * begin threads, to send, to receive, and to choose. The same threads and messages as examples/rust/power_series.rs.
 *
 * -p: each thread in a proc of its own, as in the paper: a kernel thread each.
 *
 * What it prints are the paper's numbers: threads; sends; lock calls (each operation on a channel takes its lock; a choice that of each of
 * its channels); waits (operations that had to wait for another thread).
 */
#include <chappe/libc9.h>
#include <chappe/thread.h>

enum { MODULUS = 2147483647, STACK = 8192 };

/* A series on demand: one asks, and gets the next coefficient. */
typedef struct Series {
    Channel *ask, *give;
} Series;

/* What a thread is begun with. */
typedef struct Task {
    Series *f, *g, *out;
    Channel *turn;
    ulong factor;
} Task;

static int (*mk)(void (*)(void *), void *, unsigned int) = chappe_threadcreate;
static ulong threads, sends;

static Series *series(void)
{
    Series *s = malloc(sizeof *s);
    if (s == nil)
        sysfatal("no memory for a series");
    s->ask = chancreate(1, 0);
    s->give = chancreate(sizeof(ulong), 0);
    return s;
}

static void begin(void (*body)(void *), Task with)
{
    Task *task = malloc(sizeof *task);
    if (task == nil)
        sysfatal("no memory for a thread");
    *task = with;
    __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);
    mk(body, task, STACK);
}

static Task begun(void *with)
{
    Task task = *(Task *)with;
    free(with);
    return task;
}

static void sent(Channel *c, void *v)
{
    __atomic_fetch_add(&sends, 1, __ATOMIC_RELAXED);
    send(c, v);
}

static ulong get(Series *s)
{
    ulong number;
    sent(s->ask, nil);
    recv(s->give, &number);
    return number;
}

static void await(Series *s)
{
    recv(s->ask, nil);
}

static void answer(Series *s, ulong number)
{
    sent(s->give, &number);
}

static void put(Series *s, ulong number)
{
    await(s);
    answer(s, number);
}

/* The next of both, in whichever order they come. */
static void get_both(Series *f, Series *g, ulong both[2])
{
    Series *of[2] = {f, g};
    Alt alts[3] = {{.c = f->ask, .op = CHANSND}, {.c = g->ask, .op = CHANSND}, {.op = CHANEND}};
    for (int i = 0; i < 4; i++) {
        int k = alt(alts);
        if (alts[k].op == CHANSND) {
            __atomic_fetch_add(&sends, 1, __ATOMIC_RELAXED);
            alts[k] = (Alt){.c = of[k]->give, .v = &both[k], .op = CHANRCV};
        } else {
            alts[k].op = CHANNOP;
        }
    }
}

static ulong inverse(ulong number)
{
    ulong power = 1, base = number % MODULUS;
    for (ulong exponent = MODULUS - 2; exponent > 0; exponent >>= 1) {
        if (exponent & 1)
            power = power * base % MODULUS;
        base = base * base % MODULUS;
    }
    return power;
}

/* One series for two askers, each at its own pace: a thread for each coefficient that one of them has had and the other has not. */
static void hand_out(void *with)
{
    Task t = begun(with);
    Series *first = t.f, *second = t.g;
    Alt alts[3] = {{.c = first->ask, .op = CHANRCV}, {.c = t.turn, .op = CHANRCV}, {.op = CHANEND}};
    int both = alt(alts);
    if (both) {
        alts[1].c = second->ask;
        if (alt(alts) == 1) {
            first = t.g;
            second = t.f;
        }
    }
    sent(t.out->ask, nil);
    Channel *release = chancreate(1, 0);
    begin(hand_out, (Task){.f = first, .g = second, .out = t.out, .turn = release});
    ulong number;
    recv(t.out->give, &number);
    answer(first, number);
    if (!both)
        recv(t.turn, nil);
    chanfree(t.turn);
    await(second);
    answer(second, number);
    sent(release, nil);
}

static void splits(void *with)
{
    Task t = begun(with);
    t.turn = chancreate(1, 0);
    begin(hand_out, t);
    sent(t.turn, nil);
}

static void split(Series *from, Series *f, Series *g)
{
    begin(splits, (Task){.f = f, .g = g, .out = from});
}

static void does_ones(void *with)
{
    for (Task t = begun(with);;)
        put(t.out, 1);
}

static Series *ones(void)
{
    Series *out = series();
    begin(does_ones, (Task){.out = out});
    return out;
}

static void adds(void *with)
{
    for (Task t = begun(with);;) {
        ulong both[2];
        await(t.out);
        get_both(t.f, t.g, both);
        answer(t.out, (both[0] + both[1]) % MODULUS);
    }
}

static Series *add(Series *f, Series *g)
{
    Series *out = series();
    begin(adds, (Task){.f = f, .g = g, .out = out});
    return out;
}

static void scales(void *with)
{
    for (Task t = begun(with);;) {
        await(t.out);
        answer(t.out, t.factor * get(t.f) % MODULUS);
    }
}

static Series *scale(ulong factor, Series *f)
{
    Series *out = series();
    begin(scales, (Task){.f = f, .out = out, .factor = factor});
    return out;
}

static Series *multiply(Series *f, Series *g);

static void multiplies(void *with)
{
    Task t = begun(with);
    ulong both[2];
    await(t.out);
    get_both(t.f, t.g, both);
    answer(t.out, both[0] * both[1] % MODULUS);
    Series *f = series(), *more_f = series(), *g = series(), *more_g = series();
    split(t.f, f, more_f);
    split(t.g, g, more_g);
    Series *cross = add(scale(both[0], g), scale(both[1], f));
    await(t.out);
    answer(t.out, get(cross));
    Series *sum = add(cross, multiply(more_f, more_g));
    for (;;) {
        await(t.out);
        answer(t.out, get(sum));
    }
}

static Series *multiply(Series *f, Series *g)
{
    Series *out = series();
    begin(multiplies, (Task){.f = f, .g = g, .out = out});
    return out;
}

static void differentiates(void *with)
{
    Task t = begun(with);
    await(t.out);
    get(t.f);
    for (ulong power = 1;; power++) {
        answer(t.out, power * get(t.f) % MODULUS);
        await(t.out);
    }
}

static Series *differentiate(Series *f)
{
    Series *out = series();
    begin(differentiates, (Task){.f = f, .out = out});
    return out;
}

static void integrates(void *with)
{
    Task t = begun(with);
    put(t.out, t.factor);
    for (ulong power = 1;; power++) {
        await(t.out);
        answer(t.out, get(t.f) * inverse(power) % MODULUS);
    }
}

static Series *integrate(ulong constant, Series *f)
{
    Series *out = series();
    begin(integrates, (Task){.f = f, .out = out, .factor = constant});
    return out;
}

static Series *exponential(Series *f)
{
    /* z = 1 + the integral of z f' */
    Series *inner = series(), *outer = series();
    split(integrate(1, multiply(inner, differentiate(f))), inner, outer);
    return outer;
}

static void usage(void)
{
    fprint(2, "usage: power_series [-p] [coefficients]\n");
    threadexitsall("usage");
}

void threadmain(int argc, char *argv[])
{
    ARGBEGIN {
    case 'p':
        mk = chappe_proccreate;
        break;
    default:
        usage();
    } ARGEND
    int coefficients = argc > 0 ? atoi(argv[0]) : 200;
    if (argc > 1 || coefficients <= 0)
        usage();
    vlong before = nsec();
    Series *z = exponential(ones());
    ulong hash = 0, calls, waits;
    for (int i = 0; i < coefficients; i++)
        hash = (31 * hash + get(z)) % MODULUS;
    vlong took = nsec() - before;
    chappe_threadcounts(&calls, &waits);
    print("hash %lud, %lud threads, %lud sends, %lud lock calls, %lud waits, %.2f ms\n", hash, threads, sends, calls, waits, took / 1e6);
    threadexitsall(nil);
}
