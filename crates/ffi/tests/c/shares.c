/* The C side of what a Rust program shares: the types have their names, sizes and alignments from there. */
#include "check.h"

int main(void)
{
    chappe_mutex_options counts;
    chappe_tube_options numbers;
    chappe_mutex *mutex;
    chappe_tube *tube;
    chappe_sender *tx;
    chappe_receiver *rx;
    uint64_t *data;
    char word[256];
    memset(&counts, 0, sizeof counts);
    counts.size = 16;
    counts.type_name = "[u64; 2]";
    OK(chappe_mutex_open("counts", &counts, &mutex));
    OK(chappe_mutex_lock(mutex, (void **)&data));
    CHECK(data[0] == 3 && data[1] == 4);
    data[0]++;
    data[1]++;
    OK(chappe_mutex_unlock(mutex));
    OK(chappe_mutex_close(mutex));

    uint64_t initial = 42;
    counts.size = 8;
    counts.type_name = "u64";
    counts.initial = &initial;
    OK(chappe_mutex_create("made-in-c", &counts, &mutex));
    OK(chappe_mutex_close(mutex));

    memset(&numbers, 0, sizeof numbers);
    numbers.type_name = "[u32; 3]";
    numbers.size = 12;
    numbers.align = 8;
    FAILS(chappe_tube_open("numbers", &numbers, &tube), EPROTOTYPE);
    numbers.align = 4;
    OK(chappe_tube_open("numbers", &numbers, &tube));
    OK(chappe_tube_sender(tube, &tx));
    OK(chappe_send(tx, (uint32_t[]){1, 2, 3}, 12));
    OK(chappe_sender_close(tx));
    OK(chappe_tube_close(tube));

    OK(chappe_tube_open("words", NULL, &tube));
    OK(chappe_tube_receiver(tube, &rx));
    IS(chappe_recv(rx, word, sizeof word, NULL), 12);
    OK(memcmp(word, "said in Rust", 12));
    OK(chappe_receiver_close(rx));
    OK(chappe_tube_close(tube));
    return 0;
}
