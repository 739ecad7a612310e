/* Synthesis, appendix A, figure A.4, as printed. */
#include <sys/file.h>
#define N 1024
char x[N];
main()
{
    int      f,i,j;
    f = open("file", O_RDWR | O_CREAT | O_TRUNC, 0666);
    for(j=1000; j--; ) {
        lseek(f, 0L, L_SET);
        for(i=10; i--; )
            write(f, x, N);
        lseek(f, 0L, L_SET);
        for(i=10; i--; )
            read(f, x, N);
    }
    close(f);
}
