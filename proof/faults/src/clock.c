/* A wall clock that can be set for one server: its offset in microseconds is in a file named by
 * the user it runs as, in the directory TOLLGATE_CLOCKS. Monotonic clocks are left alone. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t offset_us(void) {
    static volatile int64_t *offset;
    if (!offset) {
        const char *dir = getenv("TOLLGATE_CLOCKS");
        char path[4096];
        snprintf(path, sizeof path, "%s/%u", dir ? dir : ".", (unsigned)getuid());
        int file = open(path, O_RDWR | O_CREAT, 0666);
        if (file < 0 || ftruncate(file, sizeof *offset)) abort();
        void *map = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
        if (map == MAP_FAILED) abort();
        close(file);
        offset = map;
    }
    return *offset;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t ns = (int64_t)time->tv_sec * 1000000000 + time->tv_nsec + offset_us() * 1000;
        time->tv_sec = ns / 1000000000;
        time->tv_nsec = ns % 1000000000;
    }
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return result;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}
