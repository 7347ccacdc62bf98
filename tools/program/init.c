/* `accrue init`: writes a project in C that trains a model with the library, to be changed. It only
 * writes into a folder that it has made itself, and removes what it has made if anything fails. */
#include "program/init.h"
#include "program/commands.h"
#include "common/message.h"
#include "common/options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_WORDS = 64, PATH_MOST = 4096 };

/* 0, or an errno. */
static int write_whole(int descriptor, const unsigned char *bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = write(descriptor, bytes, size);
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) bytes += written, size -= (size_t)written;
  }
  return 0;
}

static int write_file(int folder, const project_file *file) {
  const int descriptor = openat(folder, file->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return errno;
  const int error = write_whole(descriptor, file->bytes, file->size);
  return close(descriptor) != 0 && !error ? errno : error;
}

static int write_project(const char *path) {
  if (mkdir(path, 0777) != 0) {
    if (errno == EEXIST) return fail("%s exists; give the name of a new folder", path);
    return fail("cannot make the folder %s: %s", path, strerror(errno));
  }
  const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int error = folder < 0 ? errno : 0, made = 0;
  for (; made < project_file_count && !error; made++)
    error = write_file(folder, &project_files[made]);
  if (error && folder >= 0)
    for (int i = 0; i < made; i++) unlinkat(folder, project_files[i].name, 0);
  if (folder >= 0) close(folder);
  if (!error) return STATUS_DONE;
  rmdir(path);
  return fail("cannot write the project into %s: %s", path, strerror(error));
}

static const char *mark_of(const char *path) {
  return path[strcspn(path, " ;&|<>()$`\\\"'*?[]#!{}")] ? "'" : "";
}

/* Where Accrue is installed with this program: PREFIX of PREFIX/bin/accrue. False: it is not, as
 * with a program that was only built. */
static bool find_prefix(char *prefix, size_t size) {
#ifdef __linux__
  const ssize_t length = readlink("/proc/self/exe", prefix, size - 1);
  char config[PATH_MOST + sizeof ACCRUE_PACKAGE_DIR + 32];
  if (length <= 0 || (size_t)length >= size - 1) return false;
  prefix[length] = 0;
  for (int i = 0; i < 2; i++) {
    char *slash = strrchr(prefix, '/');
    if (!slash || slash == prefix) return false;
    *slash = 0;
  }
  snprintf(config, sizeof config, "%s/%s/accrueConfig.cmake", prefix, ACCRUE_PACKAGE_DIR);
  return access(config, R_OK) == 0;
#else
  return (void)prefix, (void)size, false;
#endif
}

static void print_build(const char *path) {
  char prefix[PATH_MOST];
  const char *mark = mark_of(path);
  message_put(stdout, "Build it: cmake -S %s%s%s -B %s%s/build%s", mark, path, mark, mark, path,
              mark);
  if (find_prefix(prefix, sizeof prefix))
    message_put(stdout, " -DCMAKE_PREFIX_PATH=%s%s%s", mark_of(prefix), prefix, mark_of(prefix));
  message_put(stdout, " && cmake --build %s%s/build%s\n", mark, path, mark);
}

int init_main(int argc, char **argv) {
  const char *words[MOST_WORDS];
  options all = {.command = "init",
                 .arguments = "DIR",
                 .words = words,
                 .summary = "Writes a project in C into the new folder DIR.\nIts program trains a "
                            "model, saves it, loads it and predicts. It is built with an "
                            "installed Accrue or together with Accrue; DIR/README.md says how."};
  if (argc > MOST_WORDS) return fail_usage("init takes one folder");
  int status = options_parse(&all, argc, argv);
  if (status != STATUS_CONTINUE) return status;
  if (all.word_count != 1 || !*words[0])
    return fail_usage("init takes one folder, which must be new");
  status = write_project(words[0]);
  if (status != STATUS_DONE) return status;
  message_put(stdout, "%s has a project in C:", words[0]);
  for (int i = 0; i < project_file_count; i++) printf(" %s", project_files[i].name);
  printf("\n");
  print_build(words[0]);
  return STATUS_DONE;
}
