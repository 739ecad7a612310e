/* Terminals: programs that are asked and answer. CHAPPE_COMMAND is the command. */
#include "check.h"

#include <chappe/term.h>

#define CHECK(what) IS(!!(what), 1)

static const char *const SHELL[] = {"sh", "-c", "while read -r line; do echo \"got $line\"; done; exit 3", NULL};
static const char *const READER[] = {"sh", "-c", "read x; echo \"said $x\"; read x", NULL};

static void asked(void) {
    chappe_terminal *shell, *again;
    chappe_terminal_options options = {.columns = 40, .rows = 10};
    char mark[CHAPPE_MARK_SIZE], text[256];
    options.flags |= 2;
    CHECK(chappe_terminal_run("sh", SHELL, &options, &shell) == -EINVAL);
    options.flags = CHAPPE_TERMINAL_PRIVATE;
    CHECK(chappe_terminal_run("sh", SHELL, &options, &shell) == 0);
    CHECK(chappe_terminal_run("sh", SHELL, NULL, &again) == -ECHILD);
    CHECK(strstr(chappe_last_error(), "already") != NULL);
    CHECK(chappe_terminal_open("sh", &again) == 0);
    CHECK(chappe_terminal_name(again, text, sizeof text) == 2 && strcmp(text, "sh") == 0);
    CHECK(chappe_terminal_command(again, text, sizeof text) > 0 && strncmp(text, "sh -c", 5) == 0);
    CHECK(chappe_terminal_close(again) == 0);
    CHECK(chappe_terminal_close(again) == -EBADF);

    CHECK(chappe_terminal_send(shell, "one\r", 4, CHAPPE_FOREVER, mark) == 0);
    CHECK(chappe_terminal_wait_text(shell, "[a-z]* one", mark, CHAPPE_FOREVER, text, sizeof text) == 7);
    CHECK(strcmp(text, "got one") == 0);
    char longer[600] = "";
    memset(longer, 'x', 512);
    strcpy(longer + 512, "|got one");
    CHECK(chappe_terminal_wait_text(shell, longer, mark, CHAPPE_FOREVER, text, sizeof text) == 7);
    CHECK(chappe_terminal_wait_text(shell, "[a-z]* one", mark, CHAPPE_FOREVER, text, 4) == 7 && strcmp(text, "got") == 0);
    CHECK(chappe_terminal_show(shell, 0, text, sizeof text) == 12 && strcmp(text, "one\ngot one\n") == 0);
    CHECK(chappe_terminal_wait_text(shell, "never", NULL, 1000, text, sizeof text) == -ETIMEDOUT);
    CHECK(chappe_terminal_wait_text(shell, "a(b", NULL, 1000, text, sizeof text) == -EINVAL);
    CHECK(chappe_terminal_wait_text(shell, "x", "no mark", 1000, text, sizeof text) == -EINVAL);
    CHECK(chappe_terminal_wait_text(shell, NULL, NULL, 1000, text, sizeof text) == -EFAULT);
    CHECK(chappe_terminal_wait_exit(shell, 1000) == -ETIMEDOUT);
    CHECK(chappe_terminal_wait_exit(shell, -1) == -EINVAL);
    CHECK(chappe_terminal_press(shell, "Nonsense", NULL) == -EINVAL);
    CHECK(chappe_terminal_resize(shell, 60, 20) == 0);
    CHECK(chappe_terminal_paste(shell, "two\n", mark) == 0);
    CHECK(chappe_terminal_wait_text(shell, "got two", mark, CHAPPE_FOREVER, text, sizeof text) == 7);
    CHECK(chappe_terminal_remove("sh") == -EBUSY);
    CHECK(chappe_terminal_press(shell, "C-d", NULL) == 0);
    CHECK(chappe_terminal_wait_exit(shell, CHAPPE_FOREVER) == 3);
    CHECK(chappe_terminal_wait_text(shell, "never", NULL, CHAPPE_FOREVER, text, sizeof text) == -EPIPE);
    CHECK(chappe_terminal_send(shell, "x", 1, CHAPPE_FOREVER, NULL) == -EPIPE);
    CHECK(chappe_terminal_remove("sh") == 0);
    CHECK(chappe_terminal_open("sh", &again) == -ENOENT);
    CHECK(chappe_terminal_close(shell) == 0);
    CHECK(chappe_terminal_show(shell, 0, text, sizeof text) == -EBADF);
    static const char *const nothing[] = {NULL};
    CHECK(chappe_terminal_run("x", nothing, NULL, &again) == -EINVAL);
    CHECK(chappe_terminal_run("x", NULL, NULL, &again) == -EFAULT);
}

/* A text, an end, a permit, a message and a time in one choice. */
static void chosen(void) {
    chappe_terminal *reader;
    chappe_awaited *said, *ended;
    chappe_pool *gpu;
    chappe_permit permit;
    chappe_sender *tx;
    chappe_receiver *rx;
    char text[64], message[16];
    CHECK(chappe_terminal_run("reader", READER, NULL, &reader) == 0);
    CHECK(chappe_terminal_text(reader, "^said", NULL, &said) == 0);
    CHECK(chappe_terminal_exit(reader, &ended) == 0);
    CHECK(chappe_awaited_take(said, text, sizeof text) == -EAGAIN);
    CHECK(chappe_pool_create("gpu", 1, &gpu) == 0);
    CHECK(chappe_tube_private(1, 16, &tx, &rx) == 0);
    CHECK(chappe_pool_acquire(gpu, &permit) == 0);
    chappe_permit taken;
    chappe_arm arms[] = {
        chappe_arm_readable(chappe_awaited_descriptor(said)),
        chappe_arm_readable(chappe_awaited_descriptor(ended)),
        chappe_arm_acquire(gpu, &taken),
        chappe_arm_recv(rx, message, sizeof message),
    };
    CHECK(chappe_select_timeout(arms, 4, 0, 1000) == -ETIMEDOUT);
    CHECK(chappe_send(tx, "news", 4) == 0);
    CHECK(chappe_select(arms, 4, 0) == 3 && arms[3].result == 4 && memcmp(message, "news", 4) == 0);
    CHECK(chappe_terminal_send(reader, "hello\r", 6, CHAPPE_FOREVER, NULL) == 0);
    CHECK(chappe_select(arms, 4, 0) == 0);
    CHECK(chappe_awaited_take(said, text, sizeof text) == 10 && strcmp(text, "said hello") == 0);
    CHECK(chappe_awaited_lost(said) == 0 && chappe_awaited_lost(ended) == 0);
    CHECK(chappe_awaited_take(said, text, sizeof text) == -EAGAIN);
    CHECK(chappe_terminal_kill(reader, 9) == 0);
    CHECK(chappe_select(arms + 1, 2, 0) == 0);
    CHECK(chappe_awaited_take(ended, NULL, 0) == 128 + 9);
    CHECK(chappe_awaited_close(said) == 0 && chappe_awaited_close(ended) == 0);
    CHECK(chappe_awaited_descriptor(said) == -EBADF);
    CHECK(chappe_permit_release(&permit) == 0);
    CHECK(chappe_pool_close(gpu) == 0);
    CHECK(chappe_sender_close(tx) == 0 && chappe_receiver_close(rx) == 0);
    CHECK(chappe_terminal_close(reader) == 0);
    CHECK(chappe_terminal_remove("reader") == 0);
}

int main(int count, char **words) {
    IS(count, 2);
    OK(setenv("CHAPPE_COMMAND", words[1], 1));
    asked();
    chosen();
    return 0;
}
