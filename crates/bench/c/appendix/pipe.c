/* Synthesis, appendix A, figure A.2, as printed. */
#define N      1024    /* or 1 or 4096 */
char  x[N];
main()
{
    int      fd[2],i;
    pipe(fd);
    for(i=10000; i--; ) {
        write(fd[1], x, N);
        read(fd[0], x, N);
    }
}
