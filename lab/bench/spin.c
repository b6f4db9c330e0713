/* A planted cost: every event that epoll_wait brings takes SPIN_NS longer. Loaded into a proxy by LD_PRELOAD (lab/bench/ab.py). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>

static long long now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout_ms) {
    static int (*next)(int, struct epoll_event *, int, int);
    static long long wanted;
    if (!next) {
        const char *text = getenv("SPIN_NS");
        wanted = text ? atoll(text) : 0;
        next = (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
    }
    int got = next(epoll, events, most, timeout_ms);
    if (got > 0)
        for (long long end = now_ns() + got * wanted; now_ns() < end;)
            ;
    return got;
}
