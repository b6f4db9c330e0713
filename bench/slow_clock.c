// A clock that goes SLOW_CLOCK times as slowly, for bench/instructions: under callgrind a program does some fifty times
// less in a second, so whatever it does once per second would count fifty times as much as it costs.
//
//     cc -O2 -shared -fPIC -o slow_clock.so bench/slow_clock.c -ldl
//     SLOW_CLOCK=50 LD_PRELOAD=./slow_clock.so weir proxy ...
//
// Clocks of time and timers on them; clocks of CPU time stay. Times in a wait that the kernel keeps by itself (a futex)
// end too early, which a program must bear.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>

static int (*read_clock)(clockid_t, struct timespec *);
static int (*wait_epoll)(int, struct epoll_event *, int, int);
static int (*wait_poll)(struct pollfd *, nfds_t, int);
static int (*set_timer)(int, int, const struct itimerspec *, struct itimerspec *);
static int (*sleep_until)(clockid_t, int, const struct timespec *, struct timespec *);
static long long slow = 1;
static long long began[2];

static long long nanos(struct timespec t) { return t.tv_sec * 1000000000LL + t.tv_nsec; }
static struct timespec timespec_of(long long n) { return (struct timespec){n / 1000000000LL, n % 1000000000LL}; }
static int is_slow(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC; }

__attribute__((constructor)) static void begin(void) {
    struct timespec now;
    read_clock = dlsym(RTLD_NEXT, "clock_gettime");
    wait_epoll = dlsym(RTLD_NEXT, "epoll_wait");
    wait_poll = dlsym(RTLD_NEXT, "poll");
    set_timer = dlsym(RTLD_NEXT, "timerfd_settime");
    sleep_until = dlsym(RTLD_NEXT, "clock_nanosleep");
    const char *given = getenv("SLOW_CLOCK");
    slow = given && atoll(given) > 0 ? atoll(given) : 1;
    for (clockid_t clock = CLOCK_REALTIME; clock <= CLOCK_MONOTONIC; clock++) {
        read_clock(clock, &now);
        began[clock] = nanos(now);
    }
}

// When the kernel's clock will show what the slow one shows at `slowed`.
static long long real_time(clockid_t clock, long long slowed) { return began[clock] + (slowed - began[clock]) * slow; }

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = read_clock(clock, now);
    if (!failed && is_slow(clock)) *now = timespec_of(began[clock] + (nanos(*now) - began[clock]) / slow);
    return failed;
}

int epoll_wait(int epoll, struct epoll_event *events, int max, int timeout_ms) {
    return wait_epoll(epoll, events, max, timeout_ms > 0 ? (int)(timeout_ms * slow) : timeout_ms);
}

int poll(struct pollfd *polled, nfds_t count, int timeout_ms) {
    return wait_poll(polled, count, timeout_ms > 0 ? (int)(timeout_ms * slow) : timeout_ms);
}

// The clock of a timer is not known here: those of weir are CLOCK_MONOTONIC.
int timerfd_settime(int timer, int flags, const struct itimerspec *given, struct itimerspec *before) {
    struct itimerspec set = *given;
    long long first = nanos(given->it_value);
    int is_absolute = flags & TFD_TIMER_ABSTIME;
    if (first) set.it_value = timespec_of(is_absolute ? real_time(CLOCK_MONOTONIC, first) : first * slow);
    set.it_interval = timespec_of(nanos(given->it_interval) * slow);
    return set_timer(timer, flags, &set, before);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *given, struct timespec *left) {
    if (!is_slow(clock)) return sleep_until(clock, flags, given, left);
    int is_absolute = flags & TIMER_ABSTIME;
    struct timespec set = timespec_of(is_absolute ? real_time(clock, nanos(*given)) : nanos(*given) * slow);
    return sleep_until(clock, flags, &set, left);
}
