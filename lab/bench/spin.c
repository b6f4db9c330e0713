/* A planted cost: every receive that brought something takes SPIN_NS longer. Loaded into a proxy by LD_PRELOAD (lab/bench/ab.py). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

static long long now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void spin(ssize_t got) {
    static long long wanted = -1;
    if (wanted < 0) {
        const char *text = getenv("SPIN_NS");
        wanted = text ? atoll(text) : 0;
    }
    if (got > 0)
        for (long long end = now_ns() + wanted; now_ns() < end;)
            ;
}

ssize_t recv(int socket, void *buffer, size_t length, int flags) {
    static ssize_t (*next)(int, void *, size_t, int);
    if (!next)
        next = (ssize_t(*)(int, void *, size_t, int))dlsym(RTLD_NEXT, "recv");
    ssize_t got = next(socket, buffer, length, flags);
    spin(got);
    return got;
}

ssize_t recvmsg(int socket, struct msghdr *message, int flags) {
    static ssize_t (*next)(int, struct msghdr *, int);
    if (!next)
        next = (ssize_t(*)(int, struct msghdr *, int))dlsym(RTLD_NEXT, "recvmsg");
    ssize_t got = next(socket, message, flags);
    spin(got);
    return got;
}

ssize_t readv(int file, const struct iovec *parts, int count) {
    static ssize_t (*next)(int, const struct iovec *, int);
    if (!next)
        next = (ssize_t(*)(int, const struct iovec *, int))dlsym(RTLD_NEXT, "readv");
    ssize_t got = next(file, parts, count);
    spin(got);
    return got;
}
