/* Synthesis, appendix A, figure A.1, as printed. */
#define N      500000
int
x[N];
main() {
    int i;
    for(i=5; i--; )
        g();
    printf("%d\n%d\n", x[N-2], x[N-1]);
}

g() {
    int i;
    x[0] = x[1] = 1;
    for(i=2; i<N; i++)
        x[i] = x[i-x[i-1]] + x[i-x[i-2]];
}
