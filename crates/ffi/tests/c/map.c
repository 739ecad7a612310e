/* Maps: each function's contract, kills, fork. */
#include "check.h"

#include <signal.h>
#include <sys/wait.h>

static chappe_map *map;

static int put(const char *key, const char *value)
{
    return chappe_map_put(map, key, strlen(key), value, strlen(value), NULL);
}

static void has(const char *key, const char *value)
{
    char room[16];
    chappe_map_bytes found = {room, sizeof room};
    if (!value) {
        IS(chappe_map_get(map, key, strlen(key), &found), CHAPPE_MAP_NO);
        return;
    }
    IS(chappe_map_get(map, key, strlen(key), &found), CHAPPE_MAP_YES);
    IS((long)found.size, (long)strlen(value));
    IS(memcmp(room, value, found.size), 0);
}

static void contract(const char *name)
{
    chappe_map_options options;
    memset(&options, 0, sizeof options);
    options.entries = 3;
    options.key_size = 8;
    options.value_size = 12;
    if (name)
        OK(chappe_map_create(name, &options, &map));
    else
        OK(chappe_map_private(&options, &map));
    IS(chappe_map_name(map, NULL, 0), name ? (long)strlen(name) : 0);
    IS(put("a", "1"), CHAPPE_MAP_NO);
    char room[2];
    chappe_map_bytes old = {room, sizeof room};
    IS(chappe_map_put(map, "a", 1, "long enough", 11, &old), CHAPPE_MAP_YES);
    IS((long)old.size, 1);
    IS(room[0], '1');
    old.size = sizeof room;
    IS(chappe_map_get(map, "a", 1, &old), CHAPPE_MAP_YES); /* What has no room is left out. */
    IS((long)old.size, 11);
    IS(memcmp(room, "lo", 2), 0);
    IS(chappe_map_get(map, "a", 1, NULL), CHAPPE_MAP_YES);
    has("a", "long enough");
    has("b", NULL);
    IS(put("b", "2"), CHAPPE_MAP_NO);
    IS(put("c", ""), CHAPPE_MAP_NO);
    FAILS(put("d", "4"), ENOSPC);
    FAILS(put("", "4"), EMSGSIZE);
    FAILS(put("123456789", "4"), EMSGSIZE);
    FAILS(put("a", "1234567890123"), EMSGSIZE);
    IS((long)chappe_map_count(map), 3);
    IS(chappe_map_swap(map, "b", 1, "1", 1, "3", 1), CHAPPE_MAP_NO);
    IS(chappe_map_swap(map, "b", 1, "2", 1, "3", 1), CHAPPE_MAP_YES);
    IS(chappe_map_swap(map, "b", 1, NULL, 0, "4", 1), CHAPPE_MAP_NO);
    has("b", "3");
    IS(chappe_map_swap(map, "b", 1, "3", 1, NULL, 0), CHAPPE_MAP_YES);
    has("b", NULL);
    IS(chappe_map_delete(map, "b", 1, NULL), CHAPPE_MAP_NO);

    chappe_map_walk *walk;
    OK(chappe_map_walk_begin(map, &walk));
    int seen = 0;
    char key[8];
    for (;;) {
        chappe_map_bytes k = {key, sizeof key};
        int more = chappe_map_walk_next(walk, &k, NULL);
        if (more == CHAPPE_MAP_NO)
            break;
        IS(more, CHAPPE_MAP_YES);
        IS((long)k.size, 1);
        seen += key[0];
    }
    IS(seen, 'a' + 'c');
    OK(chappe_map_walk_end(walk));
    FAILS(chappe_map_walk_end(walk), EBADF);

    FAILS(chappe_map_wait(map, "a", 1, "long enough", 11, chappe_now()), ETIMEDOUT);
    IS(chappe_map_wait(map, "a", 1, "other", 5, CHAPPE_FOREVER), CHAPPE_MAP_YES);
    IS(chappe_map_wait(map, "a", 1, NULL, 0, CHAPPE_FOREVER), CHAPPE_MAP_YES);
    char empty[4];
    chappe_map_bytes nothing = {empty, sizeof empty};
    IS(chappe_map_delete(map, "c", 1, &nothing), CHAPPE_MAP_YES);
    IS((long)nothing.size, 0);
}

int main(void)
{
    contract(NULL);
    OK(chappe_map_close(map));
    FAILS(chappe_map_close(map), EBADF);
    FAILS(put("a", "1"), EBADF);

    contract("m");
    chappe_map *again;
    FAILS(chappe_map_create("m", NULL, &again), EEXIST);
    FAILS(chappe_map_open_or_create("m", NULL, &again), EPROTOTYPE);
    FAILS(chappe_map_open("n", &again), ENOENT);
    OK(chappe_map_open("m", &again));
    OK(chappe_map_close(again));
    FAILS(chappe_map_remove("m", 0), EBUSY);

    /* A child that is killed in the middle of writing has written the whole of a value, or nothing. */
    for (int round = 0; round < 5; round++) {
        int tell[2];
        IS(pipe(tell), 0);
        pid_t child = fork();
        if (child == 0) {
            char value[12];
            for (unsigned i = 0;; i++) {
                memset(value, 'a' + i % 26, sizeof value);
                OK(chappe_map_put(map, "a", 1, value, sizeof value, NULL) < 0);
                if (i == 0 && write(tell[1], "x", 1) != 1)
                    _exit(1);
            }
        }
        char one;
        IS(read(tell[0], &one, 1), 1);
        IS(kill(child, SIGKILL), 0);
        IS(waitpid(child, NULL, 0), child);
        close(tell[0]);
        close(tell[1]);
        char room[12];
        chappe_map_bytes found = {room, sizeof room};
        IS(chappe_map_get(map, "a", 1, &found), CHAPPE_MAP_YES);
        IS((long)found.size, 12);
        for (int i = 1; i < 12; i++)
            IS(room[i], room[0]);
        IS(put("x", "1"), CHAPPE_MAP_NO);
        IS(put("y", "1"), CHAPPE_MAP_NO);
        IS(chappe_map_delete(map, "x", 1, NULL), CHAPPE_MAP_YES);
        IS(chappe_map_delete(map, "y", 1, NULL), CHAPPE_MAP_YES);
    }
    OK(chappe_map_remove("m", 1));
    FAILS(chappe_map_get(map, "a", 1, NULL), EIDRM);
    FAILS(put("a", "1"), EIDRM);
    OK(chappe_map_close(map));
    puts("ok");
    return 0;
}
