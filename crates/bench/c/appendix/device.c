/* Synthesis, appendix A, figure A.3, as printed. */
#include <sys/file.h>
#define Test_dev    "/dev/null"    /* or /dev/tty */
main()
{
    int      f,i;
    for(i=10000; i--; ) {
        f = open(Test_dev, O_RDONLY);
        close(f);
    }
}
