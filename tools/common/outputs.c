#define _XOPEN_SOURCE 700 /* realpath */
#include "common/outputs.h"

#include "common/message.h"
#include "common/replacement.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH = REPLACEMENT_PATH, START_BYTES = 4096 };

/* ---- paths ----------------------------------------------------------------------------------- */

/* The folder of a path, in `folder`; returns the last part of the path. */
static const char *split(const char *path, char folder[PATH]) {
  const char *slash = strrchr(path, '/');
  if (!slash) snprintf(folder, PATH, ".");
  else snprintf(folder, PATH, "%.*s", slash == path ? 1 : (int)(slash - path), path);
  return slash ? slash + 1 : path;
}

/* As an absolute path without links. Its last parts need not exist. */
static bool resolve(const char *path, char whole[PATH]) {
  char rest[PATH] = "", target[PATH], folder[PATH];
  if ((size_t)snprintf(target, sizeof target, "%s", path) >= sizeof target) return false;
  for (size_t end = strlen(target); end > 1 && target[end - 1] == '/';) target[--end] = 0;
  if (!replacement_follow(target)) return false;
  for (;;) {
    char *found = realpath(target, NULL);
    if (found) {
      const int length =
          snprintf(whole, PATH, "%s%s", rest[0] && !strcmp(found, "/") ? "" : found, rest);
      free(found);
      return length > 0 && length < PATH;
    }
    char longer[PATH];
    const char *name = split(target, folder);
    if (!strcmp(folder, target)) return false;
    if ((size_t)snprintf(longer, sizeof longer, "/%s%s", name, rest) >= sizeof longer) return false;
    memcpy(rest, longer, sizeof rest);
    memcpy(target, folder, sizeof target);
  }
}

bool outputs_same(const char *a, const char *b) {
  struct stat one, other;
  char path[PATH], other_path[PATH];
  if (stat(a, &one) == 0 && stat(b, &other) == 0)
    return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
  return resolve(a, path) && resolve(b, other_path) && !strcmp(path, other_path);
}

/* ---- what files hold ------------------------------------------------------------------------- */

/* The first bytes of a regular file, with a zero at the end; -1: it cannot be read, or is not a
 * regular file. */
static long read_start(const char *path, char text[START_BYTES + 1]) {
  struct stat info;
  if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return -1;
  FILE *file = fopen(path, "rb");
  if (!file) return -1;
  const size_t length = fread(text, 1, START_BYTES, file);
  fclose(file);
  text[length] = 0;
  for (size_t i = 0; i < length; i++)
    if (!text[i]) text[i] = 1; /* the header of a model has some before its text */
  return (long)length;
}

static bool begins_with(const char *text, const char *start) {
  return !strncmp(text, start, strlen(start));
}

static bool ends_with(const char *name, const char *end) {
  const size_t length = strlen(name), ending = strlen(end);
  return length >= ending && !strcmp(name + length - ending, end);
}

/* The start of a line is enough. The last line may be cut, if a run was killed. */
static bool is_metrics(FILE *file) {
  char line[256];
  bool good = true, begins = true;
  while (good && fgets(line, sizeof line, file)) {
    const bool ends = strchr(line, '\n') != NULL;
    if (begins) good = line[0] == '{' && (strstr(line, "\"event\":") || (!ends && feof(file)));
    begins = ends;
  }
  return good;
}

/* A page contains pictures, but is not a picture. */
static bool is_svg(const char *text) {
  text += strspn(text, " \t\r\n\xef\xbb\xbf");
  return begins_with(text, "<svg") || (begins_with(text, "<?xml") && strstr(text, "<svg"));
}

static bool is_page(const char *path) {
  static const char mark[] = "Written by accrue report, version";
  char end[256] = "";
  FILE *file = fopen(path, "rb");
  if (!file) return true;
  if (fseek(file, -(long)sizeof end + 1, SEEK_END) != 0) rewind(file);
  end[fread(end, 1, sizeof end - 1, file)] = 0;
  fclose(file);
  return strstr(end, mark) != NULL;
}

bool outputs_holds(const char *path, output_kind kind) {
  char text[START_BYTES + 1];
  FILE *file;
  bool good = true;
  if (read_start(path, text) <= 0) return true;
  switch (kind) {
  case OUTPUT_METRICS:
    if (!(file = fopen(path, "r"))) return true;
    good = is_metrics(file);
    fclose(file);
    return good;
  case OUTPUT_SVG:
    return is_svg(text);
  case OUTPUT_PAGE:
    return is_page(path);
  case OUTPUT_BENCH:
    return text[0] == '{' && strstr(text, "\"devices\"") != NULL;
  }
  return good;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static bool has_record(const char *folder, const char *name) {
  char path[PATH], text[START_BYTES + 1];
  if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path) return false;
  return read_start(path, text) > 0 && text[0] == '{' && strstr(text, "\"accrue\"") != NULL;
}

bool outputs_is_of_run(const char *folder) {
  return has_record(folder, "run.json") || has_record(folder, "pilot.json");
}

bool outputs_is_run_file(const char *name) {
  static const char *const names[] = {
      "model.safetensors",    "best.safetensors", "average.safetensors",
      "diverged.safetensors", "good.safetensors", "run.json",
      "config.json",          "pilot.json",       "adapter_model.safetensors",
      "adapter_config.json",  "examples.json"};
  const bool numbered = begins_with(name, "state-") || begins_with(name, "good-");
  if (numbered && ends_with(name, ".safetensors")) return true;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(name, names[i])) return true;
  return false;
}

bool outputs_is_written(const char *path) {
  char text[START_BYTES + 1], folder[PATH];
  const char *name = split(path, folder);
  if (begins_with(name, "events.out.tfevents.")) return true;
  if (read_start(path, text) <= 0) return false;
  if (begins_with(text, "{\"event\":\"plan\"")) return true;
  if (ends_with(name, ".safetensors") && strstr(text, "\"accrue.")) return true;
  return begins_with(text, "<!DOCTYPE html>") && is_page(path);
}

/* ---- checks ---------------------------------------------------------------------------------- */

int outputs_check_name(const char *flag, const char *path, const char *run_folder) {
  char folder[PATH], target[PATH];
  snprintf(target, sizeof target, "%s", path);
  replacement_follow(target);
  const char *name = split(target, folder);
  const bool of_run = outputs_is_of_run(folder) || (run_folder && outputs_same(folder, run_folder));
  if (!outputs_is_run_file(name) || !of_run) return STATUS_CONTINUE;
  return fail_usage("--%s %s is the name of a run's own file; give another name", flag, path);
}

int outputs_check_file(const char *flag, const char *path, output_kind kind,
                       const char *run_folder) {
  static const char *const kinds[] = {[OUTPUT_METRICS] = "metrics",
                                      [OUTPUT_SVG] = "a picture as SVG",
                                      [OUTPUT_PAGE] = "a page of accrue report",
                                      [OUTPUT_BENCH] = "results of accrue bench"};
  const int status = outputs_check_name(flag, path, run_folder);
  if (status != STATUS_CONTINUE || outputs_holds(path, kind)) return status;
  return fail_usage("--%s %s is a file that does not hold %s, and would be written over; name "
                    "another file, or remove it",
                    flag, path, kinds[kind]);
}

int outputs_check_folder(const char *folder) {
  DIR *directory = opendir(folder);
  struct dirent *entry;
  int status = STATUS_CONTINUE;
  while (directory && status == STATUS_CONTINUE && (entry = readdir(directory))) {
    char path[PATH];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (!outputs_is_run_file(entry->d_name) || stat(path, &info) != 0) continue;
    if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
      status = fail("%s is a pipe, a socket or a device, and the run writes a file of that name; "
                    "remove it, or give another folder with --out",
                    path);
  }
  if (directory) closedir(directory);
  return status;
}
