// Preloaded: the time of day jumps by 11 days, forth and back, at each call, as a clock does that is set while programs run. Clocks
// that only go forward are left alone.
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long jump(void) {
  static int calls;
  return (__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) % 2 ? 11L : -11L) * 86400;
}

int clock_gettime(clockid_t clock, struct timespec* time) {
  const int code = (int)syscall(SYS_clock_gettime, clock, time);
  if (code == 0 && clock == CLOCK_REALTIME) time->tv_sec += jump();
  return code;
}

int gettimeofday(struct timeval* restrict time, void* restrict zone) {
  (void)zone;
  struct timespec t;
  const int code = clock_gettime(CLOCK_REALTIME, &t);
  time->tv_sec = t.tv_sec, time->tv_usec = t.tv_nsec / 1000;
  return code;
}

time_t time(time_t* out) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  if (out) *out = t.tv_sec;
  return t.tv_sec;
}
