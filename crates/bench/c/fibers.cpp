// What `cargo xtask bench thread` measures of Boost: one row a run, whose figure it prints. Fibers of one kernel thread; `switch` is Boost.Context alone.
#include <boost/context/fiber.hpp>
#include <boost/fiber/all.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

namespace fibers = boost::fibers;
namespace context = boost::context;

static double used() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

static double rendezvous() {
    const unsigned trips = 200000;
    fibers::unbuffered_channel<unsigned> there, back;
    fibers::fiber echo([&] {
        for (unsigned number; there.pop(number) == fibers::channel_op_status::success;) back.push(number);
    });
    unsigned number = 0;
    double begun = used();
    for (unsigned i = 0; i < trips; i++) {
        there.push(i);
        back.pop(number);
    }
    double took = (used() - begun) / trips;
    there.close();
    echo.join();
    return number == trips - 1 ? took : -1;
}

static double create() {
    const unsigned batch = 1000, rounds = 200;
    double begun = 0;
    for (unsigned round = 0; round <= rounds; round++) {
        unsigned count = 0;
        if (round == 1) begun = used();
        for (unsigned i = 0; i < batch; i++) fibers::fiber([&count] { count++; }).detach();
        while (count < batch) boost::this_fiber::yield();
    }
    return (used() - begun) / (rounds * batch);
}

static double yields(unsigned threads) {
    const unsigned each = 2000000 / threads;
    unsigned came = 0, done = 0;
    bool start = false;
    std::vector<fibers::fiber> all;
    for (unsigned i = 0; i < threads; i++)
        all.emplace_back([&] {
            came++;
            while (!start) boost::this_fiber::yield();
            for (unsigned n = 0; n < each; n++) boost::this_fiber::yield();
            done++;
        });
    while (came < threads) boost::this_fiber::yield();
    double begun = used();
    start = true;
    while (done < threads) boost::this_fiber::yield();
    double took = (used() - begun) / (double(each) * threads);
    for (auto &one : all) one.join();
    return took;
}

// There is no scheduler: two contexts, resumed in turns.
static double switches() {
    const unsigned each = 1000000;
    auto body = [](context::fiber &&back) {
        for (unsigned n = 0; n < each; n++) back = std::move(back).resume();
        return std::move(back);
    };
    context::fiber one(body), two(body);
    double begun = used();
    while (one || two) {
        if (one) one = std::move(one).resume();
        if (two) two = std::move(two).resume();
    }
    return (used() - begun) / (2.0 * each);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    unsigned number = argc > 2 ? atoi(argv[2]) : 0;
    double took = -1;
    if (!strcmp(what, "rendezvous")) took = rendezvous();
    else if (!strcmp(what, "create")) took = create();
    else if (!strcmp(what, "yield")) took = yields(number);
    else if (!strcmp(what, "switch")) took = switches();
    printf("%f\n", took);
    return took < 0;
}
