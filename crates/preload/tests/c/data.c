/* A library with thread-local data. */
__thread char data[64];

char *here(void);

char *here(void) {
    return data;
}
