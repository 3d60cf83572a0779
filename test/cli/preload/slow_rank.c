/* Loaded before a rank of mbench (LD_PRELOAD): halts it for SLOW_FOR_MS milliseconds out of twice as many, on the rank SLOW_RANK.
   A device that is half as fast as its peers, as its main thread sees it. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

static struct timespec halt;

static void on_alarm(int signal) {
  (void)signal;
  nanosleep(&halt, NULL);
}

__attribute__((constructor)) static void begin(void) {
  const char *ms = getenv("SLOW_FOR_MS"), *rank = getenv("SLOW_RANK"), *mine = getenv("OMPI_COMM_WORLD_RANK");
  if (!mine) mine = getenv("PMI_RANK");
  if (!ms || !rank || !mine || strcmp(rank, mine) != 0) return;
  const long us = atol(ms) * 1000;
  halt.tv_nsec = us * 1000;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval every = {{0, 2 * us}, {0, 2 * us}};
  setitimer(ITIMER_REAL, &every, NULL);
}
