// C++ includes all headers, links, and uses a little of each.
#include <chappe.h>
#include <chappe/plan9.h>

#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#define CHECK(what)                                                                                                                   \
    do {                                                                                                                              \
        if (!(what)) {                                                                                                                \
            std::fprintf(stderr, "%s:%d: %s; last error: \"%s\"\n", __FILE__, __LINE__, #what, chappe_last_error());                  \
            return 1;                                                                                                                 \
        }                                                                                                                             \
    } while (0)

int main()
{
    chappe_semaphore *done = nullptr;
    chappe_pool *pool = nullptr;
    chappe_sender *tx = nullptr;
    chappe_receiver *rx = nullptr;
    CHECK(chappe_semaphore_private(0, 0, &done) == 0);
    CHECK(chappe_pool_private(2, &pool) == 0);
    CHECK(chappe_tube_private(4, sizeof(int), &tx, &rx) == 0);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([&, i] {
            chappe_permit permit;
            if (chappe_pool_acquire(pool, &permit) != 0 || chappe_send(tx, &i, sizeof i) != 0)
                return;
            chappe_permit_release(&permit);
            chappe_semaphore_up(done);
        });
    int sum = 0, number = 0, downs = 0;
    chappe_arm arms[] = {chappe_arm_down(done), chappe_arm_recv(rx, &number, sizeof number)};
    for (int i = 0; i < 8; i++) {
        std::ptrdiff_t at = chappe_select(arms, 2, 0);
        CHECK(at >= 0 && arms[at].result >= 0);
        if (at == 0)
            downs++;
        else
            sum += number;
    }
    CHECK(downs == 4 && sum == 6);
    for (auto &thread : threads)
        thread.join();
    CHECK(chappe_try_select(arms, 2, CHAPPE_BIASED) == -11 && std::strlen(chappe_last_error()) > 0);
    long word = 1;
    CHECK(semacquire(&word, 1) == 1 && semrelease(&word, 3) == 3);
    Lock l = {0, 0};
    CHECK(lock(&l) == 0 && !canlock(&l) && unlock(&l) == 0);
    CHECK(chappe_semaphore_close(done) == 0 && chappe_pool_close(pool) == 0);
    CHECK(chappe_sender_close(tx) == 0 && chappe_receiver_close(rx) == 0);
    return 0;
}
