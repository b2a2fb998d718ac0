// The far ends of the benchmark of the relay.
//
//   peer source FILE N         write a file N times: its pages go into the pipe, uncopied
//   peer mirror                write back what comes in: its pages go back, uncopied
//   peer drain                 take what comes in, uncopied, and print its size and when
//                               the last of it came, in seconds since 1970
//   peer wide CMD…             run CMD with a standard input and output that are wide pipes
//   peer echo                  write back what comes in, by reading and writing
//   peer poll CMD…             relay to CMD, by poll, reading and writing
//   peer ping N CMD…           N round trips of 100 bytes through CMD: p50 p99, in µs
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 256 << 10, PIPE = 1 << 20, FRAME = 100 };
static char buf[SIZE];

static void fail(const char *what) {
	perror(what);
	exit(1);
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void put(int fd, const char *b, size_t n) {
	while (n > 0) {
		ssize_t k = write(fd, b, n);
		if (k < 0) fail("write");
		b += k, n -= k;
	}
}

// wide widens standard input and output, if they are pipes.
static void wide(void) {
	fcntl(0, F_SETPIPE_SZ, PIPE);
	fcntl(1, F_SETPIPE_SZ, PIPE);
}

// start starts a command and returns our ends of its standard input and output.
static pid_t start(char **argv, int *in, int *out) {
	int to[2], from[2];
	if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC)) fail("pipe");
	fcntl(to[1], F_SETPIPE_SZ, PIPE);
	fcntl(from[1], F_SETPIPE_SZ, PIPE);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		execvp(argv[0], argv);
		fail(argv[0]);
	}
	close(to[0]), close(from[1]);
	*in = to[1], *out = from[0];
	return pid;
}

// move moves what comes from one descriptor to another, one of which is a pipe,
// until the first ends. The pages change hands and are not copied. It tells when the
// last was moved.
static long long move(int from, int to, struct timespec *last) {
	long long total = 0;
	wide();
	for (ssize_t n; (n = splice(from, NULL, to, NULL, PIPE, SPLICE_F_MOVE)) != 0; total += n) {
		if (n < 0) fail("splice");
		clock_gettime(CLOCK_REALTIME, last);
	}
	return total;
}

static int source(const char *name, int times) {
	int file = open(name, O_RDONLY);
	if (file < 0) fail(name);
	struct timespec last;
	while (times-- > 0) {
		move(file, 1, &last);
		if (lseek(file, 0, SEEK_SET)) fail(name);
	}
	return 0;
}

static int mirror(void) {
	struct timespec last;
	move(0, 1, &last);
	return 0;
}

static int drain(void) {
	int null = open("/dev/null", O_WRONLY);
	if (null < 0) fail("/dev/null");
	struct timespec last = {0};
	long long total = move(0, null, &last);
	printf("%lld %lld.%09ld\n", total, (long long)last.tv_sec, last.tv_nsec);
	return 0;
}

static int echo(void) {
	for (ssize_t n; (n = read(0, buf, SIZE)) > 0;) put(1, buf, n);
	return 0;
}

static int relay(char **argv) {
	int in, out;
	start(argv, &in, &out);
	struct pollfd ends[2] = {{0, POLLIN, 0}, {out, POLLIN, 0}};
	int to[2] = {in, 1};
	while (ends[0].fd >= 0 || ends[1].fd >= 0) {
		if (poll(ends, 2, -1) < 0) fail("poll");
		for (int i = 0; i < 2; i++) {
			if (!ends[i].revents) continue;
			ssize_t n = read(ends[i].fd, buf, SIZE);
			if (n > 0) {
				put(to[i], buf, n);
			} else {
				close(to[i]);
				ends[i].fd = -1;
			}
		}
	}
	return 0;
}

static int compare(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

// ping sends lines of JSON, so that a relay that cuts frames finds some.
static int ping(int n, char **argv) {
	int in, out;
	char line[FRAME + 1], back[FRAME];
	start(argv, &in, &out);
	double *took = malloc(n * sizeof *took);
	for (int i = -n / 10; i < n; i++) { // a tenth warms up
		snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"n\":%09d,\"pad\":\"%.*s\"}}\n", abs(i) % 1000000000, 14, "0123456789abcdef");
		double t = now();
		put(in, line, FRAME);
		for (int got = 0; got < FRAME;) {
			ssize_t k = read(out, back + got, FRAME - got);
			if (k <= 0) fail("read");
			got += k;
		}
		if (i >= 0) took[i] = now() - t;
		if (memcmp(line, back, FRAME)) fail("the answer differs");
	}
	qsort(took, n, sizeof *took, compare);
	printf("%.2f %.2f\n", took[n / 2] * 1e6, took[n / 100 * 99] * 1e6);
	close(in);
	return 0;
}

int main(int argc, char **argv) {
	signal(SIGPIPE, SIG_DFL);
	const char *word = argc > 1 ? argv[1] : "";
	if (!strcmp(word, "source") && argc > 3) return source(argv[2], atoi(argv[3]));
	if (!strcmp(word, "mirror")) return mirror();
	if (!strcmp(word, "drain")) return drain();
	if (!strcmp(word, "echo")) return echo();
	if (!strcmp(word, "wide") && argc > 2) {
		wide();
		execvp(argv[2], argv + 2);
		fail(argv[2]);
	}
	if (!strcmp(word, "poll") && argc > 2) return relay(argv + 2);
	if (!strcmp(word, "ping") && argc > 3) return ping(atoi(argv[2]), argv + 3);
	fprintf(stderr, "usage: peer source FILE N | mirror | drain | wide CMD… | echo | poll CMD… | ping N CMD…\n");
	return 2;
}
