/* Named semaphores: flags, names, addresses, ends. */
#include "said.h"
#include <sys/resource.h>

static void opened(const char *what, sem_t *s) {
    int e = errno;
    if (s == SEM_FAILED)
        printf("%s: failed %s\n", what, named(e));
    else
        printf("%s: value %d\n", what, value_of(s));
    fflush(stdout);
}

#define OPEN(what, ...)                                                                                                \
    __extension__({                                                                                                    \
        errno = 0;                                                                                                     \
        sem_t *s_ = sem_open(__VA_ARGS__);                                                                             \
        opened(what, s_);                                                                                              \
        s_;                                                                                                            \
    })

static void flags(void) {
    const char *name = "/chappe-flags";
    sem_unlink(name);
    OPEN("none there, 0", name, 0);
    OPEN("none there, O_EXCL alone", name, O_EXCL);
    OPEN("none there, O_CREAT, too great", name, O_CREAT, 0600, (unsigned)SEM_VALUE_MAX + 1);
    OPEN("still none there", name, 0);
    sem_t *a = OPEN("O_CREAT", name, O_CREAT, 0600, 3);
    sem_t *b = OPEN("O_CREAT again, another value", name, O_CREAT, 0600, 5);
    sem_t *c = OPEN("0", name, 0);
    OPEN("O_CREAT again, a value too great", name, O_CREAT, 0600, (unsigned)SEM_VALUE_MAX + 1);
    OPEN("O_CREAT, O_EXCL", name, O_CREAT | O_EXCL, 0600, 1);
    OPEN("O_RDONLY, O_CREAT", name, O_CREAT | O_RDONLY, 0600, 1);
    OPEN("O_WRONLY", name, O_WRONLY);
    printf("one address: %d %d\n", a == b, b == c);
    SAY("wait", sem_wait(a));
    printf("values %d %d\n", value_of(b), value_of(c));
    SAY("unlink", sem_unlink(name));
    SAY("unlink again", sem_unlink(name));
    OPEN("gone", name, 0);
    SAY("the old one goes on: post", sem_post(a));
    printf("value %d\n", value_of(b));
    sem_t *d = OPEN("a new one", name, O_CREAT | O_EXCL, 0600, 7);
    printf("another address: %d\n", d != a);
    SAY("wait on the new one", sem_wait(d));
    printf("values %d %d\n", value_of(a), value_of(d));
    SAY("close", sem_close(a));
    SAY("close", sem_close(a));
    printf("it goes on: %d\n", value_of(b));
    SAY("close", sem_close(b));
    /* Opened seven times and closed three times, as far as it was had. */
    SAY("close the new one", sem_close(d));
    SAY("close the new one again", sem_close(d));
    SAY("unlink the new one", sem_unlink(name));
    sem_t here;
    MUST(sem_init(&here, 0, 0) == 0);
    SAY("close what was not opened", sem_close(&here));
    SAY("destroy what was not opened", sem_destroy(&here));
}

static void names(void) {
    static char longest[300];
    const char *all[] = {"chappe-plain", "/chappe-plain", "//chappe-plain", "/chappe/inside", "/chappe-plain/", "", "/", "//",
                         "/.chappe", "/..", "/chappe with spaces", "/chappe-\xc3\xa4\xff", "/sem.chappe"};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        printf("name `%s`\n", all[i]);
        sem_t *s = OPEN(" create", all[i], O_CREAT, 0600, 2);
        OPEN(" open", all[i], 0);
        SAY(" unlink", sem_unlink(all[i]));
        SAY(" unlink again", sem_unlink(all[i]));
        if (s != SEM_FAILED)
            sem_close(s);
    }
    sem_t *one = sem_open("/chappe-slash", O_CREAT, 0600, 1), *two = sem_open("chappe-slash", 0);
    printf("with and without the slash: %d\n", one == two && one != SEM_FAILED);
    SAY("unlink", sem_unlink("///chappe-slash"));
    for (int len = 245; len <= 262; len++) {
        char text[64];
        memset(longest, 'l', sizeof longest);
        longest[0] = '/';
        longest[len + 1] = 0;
        snprintf(text, sizeof text, "a name of %d", len);
        OPEN(text, longest, O_CREAT, 0600, 1);
        SAY(" unlink", sem_unlink(longest));
        snprintf(text, sizeof text, "a name of %d, not there", len);
        OPEN(text, longest, 0);
    }
}

/* Many at once, and no descriptor is kept. */
static void many(void) {
    sem_t *all[200];
    char name[64];
    int before = dup(0);
    close(before);
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "/chappe-many-%d", i);
        all[i] = sem_open(name, O_CREAT | O_EXCL, 0600, i);
        MUST(all[i] != SEM_FAILED);
        MUST(sem_unlink(name) == 0);
    }
    int after = dup(0);
    close(after);
    printf("no descriptor: %d\n", before == after);
    for (int i = 0; i < 200; i++)
        MUST(value_of(all[i]) == i);
    for (int i = 0; i < 200; i++)
        MUST(sem_close(all[i]) == 0);
    printf("many: done\n");
}

/* The same name again and again, each time another. */
static void again(void) {
    for (int i = 0; i < 3000; i++) {
        sem_t *s = sem_open("/chappe-again", O_CREAT | O_EXCL, 0600, 1);
        MUST(s != SEM_FAILED);
        MUST(sem_wait(s) == 0 && value_of(s) == 0);
        MUST(sem_unlink("/chappe-again") == 0);
        MUST(sem_close(s) == 0);
    }
    printf("again: done\n");
}

static void no_descriptors(void) {
    int kept[64], n = 0;
    struct rlimit few = {64, 64};
    MUST(setrlimit(RLIMIT_NOFILE, &few) == 0);
    sem_t *s = sem_open("/chappe-few", O_CREAT, 0600, 1);
    MUST(s != SEM_FAILED);
    while (n < 64 && (kept[n] = dup(0)) >= 0)
        n++;
    OPEN("no descriptor left", "/chappe-none", O_CREAT, 0600, 1);
    OPEN("no descriptor left, one that is there", "/chappe-few", 0);
    SAY("post", sem_post(s));
    while (n > 0)
        close(kept[--n]);
    SAY("unlink", sem_unlink("/chappe-few"));
    SAY("unlink", sem_unlink("/chappe-none"));
}

int main(void) {
    umask(022);
    flags();
    names();
    many();
    again();
    no_descriptors();
    return 0;
}
