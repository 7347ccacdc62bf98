/* The program, with settings drawn at random, most of them far beyond what makes sense: whatever
 * they are, it never ends with status 0 if its model or its validation loss is not finite, and
 * leaves no file in its folder with values that are not finite. A good model that was there before
 * stays, bit for bit, unless status 0 says that another has replaced it.
 *
 *   cli_drawn_settings PROGRAM [--runs N] [--seed N] [--devices 'cpu opencl']
 *
 * A failure prints the command, and its folders stay. */
#define _XOPEN_SOURCE 700

#include "support/tiny_llm.h"

#include <accrue/accrue.h>

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FLAGS = 96, TEXT = 48, PATH_BYTES = 512, SIDE = 6, CLASSES = 3 };

static char folder[256] = "/tmp/accrue-drawn-XXXXXX";
static uint64_t state;

__attribute__((noreturn)) static void die(const char *what) {
  fprintf(stderr, "FAILED: %s (%s; see %s)\n", what, ac_last_error(), folder);
  exit(1);
}

/* ---- drawing --------------------------------------------------------------------------------- */

/* splitmix64 */
static uint64_t next(void) {
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static bool one_in(int n) {
  return next() % (uint64_t)n == 0;
}

static double between(double low, double high) {
  return low + (high - low) * (double)(next() >> 11) * 0x1p-53;
}

typedef struct command {
  char *argv[FLAGS];
  char texts[FLAGS][PATH_BYTES];
  int count;
} command;

static void add(command *c, const char *text) {
  if (c->count + 1 >= FLAGS) die("too many flags");
  snprintf(c->texts[c->count], PATH_BYTES, "%s", text);
  c->argv[c->count] = c->texts[c->count];
  c->argv[++c->count] = NULL;
}

static void add_two(command *c, const char *flag, const char *value) {
  add(c, flag);
  add(c, value);
}

static void add_number(command *c, const char *flag, double value) {
  char text[TEXT];
  snprintf(text, sizeof text, "%.17g", value);
  add_two(c, flag, text);
}

static void add_count(command *c, const char *flag, int low, int high) {
  add_number(c, flag, low + (double)(next() % (uint64_t)(high - low + 1)));
}

#define ADD_CHOICE(c, flag, ...)                             \
  do {                                                       \
    static const char *const of[] = {__VA_ARGS__};           \
    add_two(c, flag, of[next() % (sizeof of / sizeof *of)]); \
  } while (0)

/* Most are usual; the others are near the ends of floats, beyond them, or nearly nothing. */
static double extreme(double low, double high) {
  static const double ends[] = {1e30, 1e37,  3e38,  3.4028234e38, 3.4028236e38, 1e39,
                                1e60, 1e300, 1e-38, 1e-46,        1e19,         2e19};
  if (!one_in(3)) return pow(10, between(low, high));
  if (one_in(2)) return ends[next() % (sizeof ends / sizeof *ends)];
  return pow(10, between(10, 42));
}

static double near_one(void) {
  if (one_in(3)) return between(0, 1);
  return 1 - pow(10, -between(1, 17));
}

static void draw_rates(command *c) {
  static const char *const kinds[] = {"constant", "constant",  "constant", "cosine", "exponential",
                                      "cyclic",   "one-cycle", "step",     "wsd",    "linear"};
  const char *kind = kinds[next() % (sizeof kinds / sizeof *kinds)];
  add_number(c, "--lr", extreme(-4, 3));
  add_two(c, "--schedule", kind);
  if (!strcmp(kind, "exponential") || !strcmp(kind, "step"))
    add_number(c, "--lr-factor", one_in(2) ? extreme(0, 12) : between(0.1, 1));
  if (!strcmp(kind, "step")) add_two(c, "--lr-period", "1");
  if (!strcmp(kind, "one-cycle") && one_in(2)) add_number(c, "--lr-end-divisor", extreme(-6, 3));
  if (!strcmp(kind, "constant") || one_in(2)) add_two(c, "--warmup", "0");
  if (one_in(8)) {
    ADD_CHOICE(c, "--lr-scaling", "linear", "sqrt");
    add_count(c, "--lr-base-batch", 1, 3);
  }
}

static void draw_optimizer(command *c) {
  static const char *const names[] = {"adamw", "sgd", "lion", "adafactor", "muon", "adam-mini"};
  const char *name = names[next() % (sizeof names / sizeof *names)];
  const bool folds =
      one_in(6) && strcmp(name, "lion") && strcmp(name, "adafactor") && strcmp(name, "adam-mini");
  const bool adam = !strcmp(name, "adamw") || !strcmp(name, "adam-mini") || !strcmp(name, "lion");
  add_two(c, "--optimizer", name);
  if (adam && one_in(2)) add_number(c, "--beta1", near_one());
  if (adam && one_in(2)) add_number(c, "--beta2", near_one());
  if ((!strcmp(name, "sgd") || !strcmp(name, "muon")) && one_in(2))
    add_number(c, "--momentum", !strcmp(name, "sgd") && one_in(4) ? extreme(0, 3) : near_one());
  if (!strcmp(name, "muon") && one_in(2)) add_number(c, "--adamw-rate", extreme(-3, 3));
  if (!strcmp(name, "muon") && folds) add(c, "--no-nesterov");
  if (folds) add_two(c, "--gradients", "folded");
  else ADD_CHOICE(c, "--gradients", "buffer", "buffer", "fused", "fused-local", "bf16", "auto");
  if (!folds && one_in(2)) add_number(c, "--clip", extreme(-2, 2));
  if (!folds && one_in(6)) ADD_CHOICE(c, "--clip-by", "norm", "each", "value", "adaptive");
  if (!folds && one_in(6) && strcmp(name, "adafactor") && strcmp(name, "muon"))
    add_two(c, "--optimizer-state", "8bit");
}

static void draw_rest(command *c, const char *device, bool language) {
  char text[TEXT];
  add_two(c, "--device", device);
  add_count(c, "--steps", 1, 4);
  add_number(c, "--seed", (double)(next() % 1000));
  if (one_in(2)) add_number(c, "--weight-decay", extreme(-3, 2));
  if (one_in(4)) {
    snprintf(text, sizeof text, "%s:%s=%.17g", one_in(2) ? "*" : "*.bias",
             one_in(2) ? "lr" : "decay", extreme(-2, 2));
    add_two(c, "--group", text);
  }
  if (one_in(4)) add_number(c, "--ema", near_one());
  if (one_in(3)) add_count(c, "--eval-every", 1, 2);
  if (one_in(4)) add(c, "--keep-best");
  if (one_in(4)) add_two(c, "--save-every", "1");
  if (one_in(6)) add_two(c, "--keep", "0");
  if (one_in(8)) ADD_CHOICE(c, "--on-spike", "tell", "skip", "back");
  if (one_in(3)) ADD_CHOICE(c, "--precision", "f16", "bf16");
  if (one_in(10)) add_number(c, "--loss-scale", extreme(0, 6));
  if (one_in(8))
    add_number(c, language ? "--lora-dropout" : "--dropout",
               one_in(3) ? 1 - pow(10, -between(1, 17)) : 0.1);
}

/* ---- running --------------------------------------------------------------------------------- */

static const char *in(const char *name) {
  static char paths[4][PATH_BYTES];
  static int turn;
  char *path = paths[turn++ % 4];
  snprintf(path, PATH_BYTES, "%s/%s", folder, name);
  return path;
}

static void put_be32(FILE *file, uint32_t x) {
  for (int shift = 24; shift >= 0; shift -= 8) fputc((int)(x >> shift & 255), file);
}

static void write_set(const char *set, int count) {
  char name[64];
  snprintf(name, sizeof name, "data/%s-images-idx3-ubyte", set);
  FILE *images = fopen(in(name), "wb");
  snprintf(name, sizeof name, "data/%s-labels-idx1-ubyte", set);
  FILE *labels = fopen(in(name), "wb");
  if (!images || !labels) die("no data");
  const uint32_t numbers[] = {0x803, (uint32_t)count, SIDE, SIDE};
  for (int i = 0; i < 4; i++) put_be32(images, numbers[i]);
  put_be32(labels, 0x801);
  put_be32(labels, (uint32_t)count);
  for (int i = 0; i < count; i++) {
    fputc(i % CLASSES, labels);
    for (int p = 0; p < SIDE * SIDE; p++)
      fputc((p % CLASSES == i % CLASSES ? 160 : 20) + (int)(next() % 64), images);
  }
  if (fclose(images) | fclose(labels)) die("no data");
}

/* The status; what it says goes to the files `out` and `err`. */
static int execute(const command *c) {
  const pid_t child = fork();
  if (child < 0) die("no process");
  if (!child) {
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    if (dup2(open(in("out"), flags, 0600), 1) < 0 || dup2(open(in("err"), flags, 0600), 2) < 0)
      _exit(127);
    execv(c->argv[0], c->argv);
    _exit(127);
  }
  int status;
  if (waitpid(child, &status, 0) != child) die("no status");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static char *read_text(const char *path, size_t *bytes) {
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  *bytes = 0;
  if (!file) return NULL;
  for (size_t room = 0, got = 1; got; *bytes += got) {
    if (*bytes + 1 >= room) text = realloc(text, room = 2 * room + 65536);
    if (!text) die("no memory");
    got = fread(text + *bytes, 1, room - *bytes - 1, file);
  }
  fclose(file);
  text[*bytes] = 0;
  return text;
}

static bool tensor_is_finite(ac_model_file *file, int index) {
  const ac_model_tensor *tensor = ac_model_file_tensor(file, index);
  int64_t count = 1;
  for (int d = 0; d < tensor->rank; d++) count *= tensor->shape[d];
  for (int64_t first = 0; first < count; first += 256) {
    float values[256];
    const int64_t some = count - first < 256 ? count - first : 256;
    if (tensor->dtype == AC_U8 || tensor->dtype == AC_I32) return true;
    if (ac_model_file_read(file, index, first, some, values) != AC_OK) die("no values");
    for (int64_t i = 0; i < some; i++)
      if (!isfinite(values[i])) return false;
  }
  return true;
}

static bool file_is_finite(const char *path) {
  ac_model_file *file;
  bool finite = true;
  if (ac_model_file_open(&file, path) != AC_OK) die("no model file");
  for (int i = 0; i < ac_model_file_tensor_count(file); i++) finite &= tensor_is_finite(file, i);
  ac_model_file_close(file);
  return finite;
}

/* The first file of the run's folder that is not finite, or what else is wrong; NULL: nothing. */
static const char *find_bad_file(const char *out) {
  static char found[PATH_BYTES];
  DIR *entries = opendir(out);
  const char *bad = NULL;
  for (struct dirent *e; entries && !bad && (e = readdir(entries));) {
    const char *ending = strstr(e->d_name, ".safetensors");
    if (!ending || strcmp(ending, ".safetensors")) continue;
    snprintf(found, sizeof found, "%.250s/%.250s", out, e->d_name);
    if (!file_is_finite(found)) bad = found;
  }
  if (entries) closedir(entries);
  return bad;
}

static void clear(const char *out) {
  DIR *entries = opendir(out);
  for (struct dirent *e; entries && (e = readdir(entries));) {
    char path[PATH_BYTES + 260];
    snprintf(path, sizeof path, "%s/%s", out, e->d_name);
    unlink(path);
  }
  if (entries) closedir(entries);
  rmdir(out);
}

/* ---- a run ----------------------------------------------------------------------------------- */

typedef struct model {
  const char *file; /* its name in the folder */
  char *bytes;
  size_t size;
} model;

static void begin_command(command *c, const char *program, const char *out, const char *overwrite,
                          bool language) {
  c->count = 0;
  add(c, program);
  add(c, "train");
  add(c, language ? "llm" : "mlp");
  add_two(c, "--data", in(language ? "chats.jsonl" : "data"));
  add_two(c, "--out", out);
  if (language) {
    add_two(c, "--model", in("base"));
    add_two(c, "--lora", "4");
    add_two(c, "--context", "32");
  } else {
    add_two(c, "--hidden", "4");
    add_two(c, "--classes", "3");
  }
  add_two(c, "--batch", "8");
  add_two(c, "--recompute", "none");
  add_two(c, "--threads", "1");
  if (overwrite) add(c, overwrite);
}

/* What is wrong after a run that ended so; NULL: nothing. `good`: the model that was there. */
static const char *judge(int status, const char *out, const model *good) {
  static char why[PATH_BYTES + 64];
  char path[PATH_BYTES + 32];
  size_t size, said_bytes;
  if (status > 2) return "it ended neither with 0 nor with 1 or 2";
  const char *bad = find_bad_file(out);
  if (bad) {
    snprintf(why, sizeof why, "%s is not finite", bad);
    return why;
  }
  char *said = read_text(in("out"), &said_bytes);
  const char *loss = said ? strstr(said, "validation loss") : NULL;
  const bool no_number = status == 0 && loss && (strstr(loss, "nan") || strstr(loss, "inf"));
  free(said);
  if (no_number) return "status 0 with a validation loss that is not finite";
  if (status == 0 || !good) return NULL;
  snprintf(path, sizeof path, "%s/%s", out, good->file);
  char *is = read_text(path, &size);
  const bool same = is && size == good->size && !memcmp(is, good->bytes, size);
  free(is);
  return same ? NULL : "a good model was replaced by a run that failed";
}

static void tell(const command *c, int number, int status, const char *why) {
  size_t bytes;
  fprintf(stderr, "FAILED: run %d, status %d: %s\n ", number, status, why);
  for (int i = 0; i < c->count; i++) fprintf(stderr, " '%s'", c->argv[i]);
  char *said = read_text(in("err"), &bytes);
  fprintf(stderr, "\n%s(%s)\n", said ? said : "", folder);
  exit(1);
}

static void put_model(const char *out, const model *good) {
  char path[PATH_BYTES + 32];
  snprintf(path, sizeof path, "%s/%s", out, good->file);
  if (mkdir(out, 0700) != 0) die("no folder");
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(good->bytes, 1, good->size, file) != good->size || fclose(file))
    die("no model");
}

/* Whether the program asks for a word before it replaces a model. */
static const char *find_overwrite(const char *program) {
  size_t bytes;
  command c = {.count = 0};
  add(&c, program);
  add(&c, "train");
  add(&c, "mlp");
  add(&c, "--help");
  if (execute(&c) != 0) die("no help");
  char *said = read_text(in("out"), &bytes);
  const bool has = said && strstr(said, "--overwrite ");
  free(said);
  return has ? "--overwrite" : NULL;
}

static void write_language(void) {
  FILE *chats = fopen(in("chats.jsonl"), "w");
  if (mkdir(in("base"), 0700) != 0 || !tiny_llm_write(in("base"), 1, true) || !chats)
    die("no language model");
  for (int i = 0; i < 24; i++)
    fprintf(chats,
            "{\"messages\": [{\"role\": \"user\", \"content\": \"%d\"}, {\"role\": "
            "\"assistant\", \"content\": \"%d\"}]}\n",
            i, i + 1);
  if (fclose(chats)) die("no chats");
}

/* The model of a run with usual settings. */
static model train_usual(const char *program, bool language) {
  static command c;
  char path[64];
  model good = {.file = language ? "adapter_model.safetensors" : "model.safetensors"};
  begin_command(&c, program, in("good"), NULL, language);
  add_two(&c, "--device", "cpu");
  add_two(&c, "--steps", "3");
  if (execute(&c) != 0) tell(&c, 0, 1, "a usual run");
  snprintf(path, sizeof path, "good/%s", good.file);
  good.bytes = read_text(in(path), &good.size);
  if (!good.bytes) die("a usual run leaves no model");
  clear(in("good"));
  return good;
}

int main(int argc, char **argv) {
  static command c;
  const char *devices = "cpu";
  int runs = 40, ended[3] = {0}, kept = 0;
  for (int i = 2; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--runs")) runs = atoi(argv[i + 1]);
    else if (!strcmp(argv[i], "--seed")) state = strtoull(argv[i + 1], NULL, 10);
    else if (!strcmp(argv[i], "--devices")) devices = argv[i + 1];
  }
  if (argc < 2 || !mkdtemp(folder) || mkdir(in("data"), 0700) != 0) die("no folder");
  write_set("train", 24);
  write_set("t10k", 9);
  const char *overwrite = find_overwrite(argv[1]);
  write_language();
  model good[2] = {train_usual(argv[1], false), train_usual(argv[1], true)};
  for (int i = 1; i <= runs; i++) {
    char device[TEXT], out[PATH_BYTES];
    const char *second = strchr(devices, ' ');
    snprintf(out, sizeof out, "%s", in("run"));
    snprintf(device, sizeof device, "%.*s", (int)strcspn(devices, " "), devices);
    if (second && one_in(4)) snprintf(device, sizeof device, "%s", second + 1);
    const bool there = !one_in(3);
    const bool language = one_in(4);
    if (there) put_model(out, &good[language]);
    begin_command(&c, argv[1], out, there ? overwrite : NULL, language);
    draw_rates(&c);
    draw_optimizer(&c);
    draw_rest(&c, device, language);
    const int status = execute(&c);
    const char *why = judge(status, out, there ? &good[language] : NULL);
    if (why) tell(&c, i, status, why);
    ended[status]++;
    kept += status && there;
    if (getenv("ACCRUE_DRAWN_SHOW")) {
      size_t bytes;
      char *said = read_text(in("err"), &bytes);
      fprintf(stderr, "run %d: status %d: %s", i, status, said && bytes ? said : "\n");
      free(said);
    }
    clear(out);
  }
  printf("%d runs: %d ended well, %d failed, %d were refused; %d good models stayed\n", runs,
         ended[0], ended[1], ended[2], kept);
  clear(in("data"));
  clear(in("base"));
  unlink(in("chats.jsonl"));
  unlink(in("out"));
  unlink(in("err"));
  rmdir(folder);
  free(good[0].bytes);
  free(good[1].bytes);
  /* Each of these is there, or the settings that are drawn show nothing. */
  return runs >= 40 && !(ended[0] && ended[1] && ended[2] && kept);
}
