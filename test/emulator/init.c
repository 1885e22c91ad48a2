/*===- init.c - the only process of the emulated machine ------------------===*/
/*
 * Runs /test with the arguments in /args, one a line, prints its exit status
 * and turns the machine off. The console is the first serial line.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { MAX_ARGUMENTS = 64 };

static int run(void) {
  static char text[4096];
  char *arguments[MAX_ARGUMENTS + 1] = {NULL};
  int file = open("/args", O_RDONLY);
  if (file < 0 || read(file, text, sizeof(text) - 1) < 0)
    return 127;
  int count = 0;
  for (char *word = strtok(text, "\n"); word && count < MAX_ARGUMENTS;
       word = strtok(NULL, "\n"))
    arguments[count++] = word;

  pid_t child = fork();
  if (child < 0)
    return 127;
  if (child == 0) {
    execv("/test", arguments);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(void) {
  mount("proc", "/proc", "proc", 0, NULL);
  mount("sys", "/sys", "sysfs", 0, NULL);
  mount("dev", "/dev", "devtmpfs", 0, NULL);
  int console = open("/dev/ttyS0", O_RDWR);
  for (int fd = 0; fd < 3; ++fd)
    dup2(console, fd);
  int status = run();
  printf("\nemulated exit status %d\n", status);
  fflush(stdout);
  tcdrain(1);
  /* The emulator ends when this word comes to this port. */
  iopl(3);
  for (const char *c = "Shutdown"; *c; ++c)
    outb((unsigned char)*c, 0x8900);
  for (;;)
    pause();
}
