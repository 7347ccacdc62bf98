/* Makes the files that the tests of the command line need.
 *
 *   fixture images FOLDER SET COUNT   SET-images-idx3-ubyte and SET-labels-idx1-ubyte: 6 x 6
 * pixels, ten classes
 *   fixture digits FOLDER SET COUNT   the same, 28 x 28: drawn digits, moved and noisy
 *   fixture masks FOLDER COUNT SEED      the same pictures, in FOLDER/images, with masks in
 * FOLDER/masks: ground, circle, cross, square, and a border that is ignored fixture pictures FOLDER
 * COUNT SEED   PNG pictures of circles, crosses and squares, in a folder for each class fixture
 * text FILE BYTES           sentences of English words fixture tokens FILE COUNT VOCAB
 * little-endian uint16 below VOCAB, or uint32 if it is above 65536 fixture bare IN OUT a model file
 * without "transformer." before its names, without metadata fixture safetensors FILE LENGTH HEADER
 * BYTES   a file that claims a header of LENGTH bytes fixture model IN OUT CHANGE...   IN without
 * its metadata: KEY=VALUE adds some, -NAME leaves out a tensor, +NAME=FROM adds one that is like
 * another, ~NAME=FROM one that differs in its first number fixture formats FOLDER    a file of each
 * format of tests/support/formats.h fixture list their names, what they are called and which reader
 * reads them fixture llm FOLDER SEED           the language model of tests/support/tiny_llm.h; seed
 * 0: without weights fixture chats COUNT               to stdout, JSONL of sums that are asked for
 */
#include "support/formats.h"
#include "support/tiny_llm.h"

#include <accrue/model_file.h>
#include <accrue/masks.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static FILE *create(const char *folder, const char *set, const char *rest) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s%s", folder, set, rest);
  return fopen(path, "wb");
}

static void put_be32(FILE *file, uint32_t x) {
  for (int shift = 24; shift >= 0; shift -= 8) fputc((int)(x >> shift & 255), file);
}

static uint32_t next_random(uint32_t *state) {
  *state = *state * 1664525 + 1013904223;
  return *state >> 16;
}

/* The bars of a display of seven bars that digit `digit` lights: top, upper left, upper right,
 * middle, lower left, lower right, bottom. */
static const char *const bars[10] = {"1110111", "0010010", "1011101", "1011011", "0111010",
                                     "1101011", "1101111", "1010010", "1111111", "1111011"};

static bool is_lit(int digit, int x, int y) {
  enum { LEFT = 0, RIGHT = 9, TOP = 0, MIDDLE = 8, BOTTOM = 16, THICK = 2 };
  const char *lit = bars[digit];
  const bool across = x >= LEFT && x <= RIGHT + THICK, upper = y >= TOP && y <= MIDDLE + THICK,
             lower = y >= MIDDLE && y <= BOTTOM + THICK;
  const bool left = x >= LEFT && x <= LEFT + THICK, right = x >= RIGHT && x <= RIGHT + THICK;
  return (across && ((lit[0] == '1' && y >= TOP && y <= TOP + THICK) ||
                     (lit[3] == '1' && y >= MIDDLE && y <= MIDDLE + THICK) ||
                     (lit[6] == '1' && y >= BOTTOM && y <= BOTTOM + THICK))) ||
         (left && ((lit[1] == '1' && upper) || (lit[4] == '1' && lower))) ||
         (right && ((lit[2] == '1' && upper) || (lit[5] == '1' && lower)));
}

static int write_digits(const char *folder, const char *set, int count) {
  enum { SIDE = 28 };
  FILE *images = create(folder, set, "-images-idx3-ubyte");
  FILE *labels = create(folder, set, "-labels-idx1-ubyte");
  if (!images || !labels) return 1;
  put_be32(images, 0x803);
  put_be32(images, (uint32_t)count);
  put_be32(images, SIDE);
  put_be32(images, SIDE);
  put_be32(labels, 0x801);
  put_be32(labels, (uint32_t)count);
  uint32_t random = (uint32_t)set[1]; /* "train" and "t10k" differ */
  for (int i = 0; i < count; i++) {
    const int digit = (int)(next_random(&random) % 10);
    const int left = 6 + (int)(next_random(&random) % 4), top = 3 + (int)(next_random(&random) % 4);
    fputc(digit, labels);
    for (int pixel = 0; pixel < SIDE * SIDE; pixel++) {
      const bool lit = is_lit(digit, pixel % SIDE - left, pixel / SIDE - top);
      const int noise = (int)(next_random(&random) % 128);
      fputc(next_random(&random) % 16 == 0 ? noise : lit ? 127 + noise : noise / 4, images);
    }
  }
  return (fclose(images) | fclose(labels)) != 0;
}

/* Sentences of a subject, a verb and an object, some joined by a conjunction. */
static int write_text(const char *path, int bytes) {
  static const char *const starts[] = {"The",     "A",       "Every",
                                       "The old", "A young", "It was late when the"};
  static const char *const nouns[] = {"captain", "river",   "ship",     "letter",
                                      "garden",  "winter",  "horse",    "window",
                                      "street",  "morning", "stranger", "lamp"};
  static const char *const verbs[] = {"found",   "could not see", "remembered",    "followed",
                                      "carried", "waited for",    "had forgotten", "loved"};
  static const char *const ends[] = {"the house on the hill", "a small boat", "what was lost",
                                     "the road to the sea",   "another day",  "the sound of rain"};
  static const char *const joins[] = {". ", ". ", ", and ", ". ", ", but ", ".\n"};
  FILE *file = fopen(path, "wb");
  if (!file) return 1;
  uint32_t random = 1;
  bool opens = true;
  char sentence[256];
  for (int left = bytes; left > 0;) {
    const char *start = starts[next_random(&random) % 6], *noun = nouns[next_random(&random) % 12];
    const char *verb = verbs[next_random(&random) % 8], *end = ends[next_random(&random) % 6];
    const char *join = joins[next_random(&random) % 6];
    int length = snprintf(sentence, sizeof sentence, "%s %s %s %s%s", start, noun, verb, end, join);
    if (!opens) sentence[0] |= 0x20; /* a small letter */
    opens = join[0] == '.';
    if (length > left) length = left;
    fwrite(sentence, 1, (size_t)length, file);
    left -= length;
  }
  return fclose(file) != 0;
}

/* Class c lights up the pixels that are c modulo ten, on a noisy ground. */
static int write_images(const char *folder, const char *set, int count) {
  enum { SIDE = 6 };
  FILE *images = create(folder, set, "-images-idx3-ubyte");
  FILE *labels = create(folder, set, "-labels-idx1-ubyte");
  if (!images || !labels) return 1;
  put_be32(images, 0x803);
  put_be32(images, (uint32_t)count);
  put_be32(images, SIDE);
  put_be32(images, SIDE);
  put_be32(labels, 0x801);
  put_be32(labels, (uint32_t)count);
  uint32_t noise = 1;
  for (int i = 0; i < count; i++) {
    int class = i * 7 % 10;
    fputc(class, labels);
    for (int pixel = 0; pixel < SIDE * SIDE; pixel++) {
      noise = noise * 1664525 + 1013904223;
      fputc((pixel % 10 == class ? 128 : 0) + (int)(noise >> 25), images);
    }
  }
  return (fclose(images) | fclose(labels)) != 0;
}

static int write_tokens(const char *path, int count, int vocab) {
  FILE *file = fopen(path, "wb");
  if (!file) return 1;
  for (int i = 0; i < count; i++) {
    const int token = (int)(i * 31LL % vocab);
    for (int byte = 0; byte < (vocab > 65536 ? 4 : 2); byte++) fputc(token >> 8 * byte & 255, file);
  }
  return fclose(file) != 0;
}

static ac_status read_from(void *user, int index, int64_t first, int64_t count, void *data) {
  return ac_model_file_read(user, index, first, count, data);
}

static int write_bare(const char *from, const char *to) {
  enum { MOST = 256 };
  static ac_model_tensor tensors[MOST];
  ac_model_file *file = NULL;
  if (ac_model_file_open(&file, from) != AC_OK) return 1;
  int count = ac_model_file_tensor_count(file);
  for (int i = 0; i < count && i < MOST; i++) {
    tensors[i] = *ac_model_file_tensor(file, i);
    const char *dot = strchr(tensors[i].name, '.');
    if (dot) tensors[i].name = dot + 1;
  }
  ac_status status = count <= MOST
                         ? ac_model_file_write(to, tensors, count, NULL, 0, read_from, file)
                         : AC_ERROR_ARGUMENT;
  ac_model_file_close(file);
  return status != AC_OK;
}

/* ---- models with changes --------------------------------------------------------------------- */

enum { MOST_TENSORS = 256, MOST_METADATA = 16 };

typedef struct changed_model {
  ac_model_file *file;
  ac_model_tensor tensors[MOST_TENSORS];
  int from[MOST_TENSORS]; /* in the file */
  bool differs[MOST_TENSORS];
  int count;
  ac_metadata metadata[MOST_METADATA];
  int metadata_count;
} changed_model;

static ac_status read_changed(void *user, int index, int64_t first, int64_t count, void *data) {
  const changed_model *m = user;
  const ac_status status = ac_model_file_read(m->file, m->from[index], first, count, data);
  if (m->differs[index] && !first && count) ((float *)data)[0] += 1;
  return status;
}

static bool is_left_out(const char *name, int count, char **changes) {
  for (int i = 0; i < count; i++)
    if (changes[i][0] == '-' && !strcmp(changes[i] + 1, name)) return true;
  return false;
}

static bool add_tensor(changed_model *m, int from, const char *name, bool differs) {
  if (from < 0 || m->count == MOST_TENSORS) return false;
  m->tensors[m->count] = *ac_model_file_tensor(m->file, from);
  if (name) m->tensors[m->count].name = name;
  m->from[m->count] = from;
  m->differs[m->count++] = differs;
  return true;
}

static bool apply(changed_model *m, char *change) {
  char *equals = strchr(change, '=');
  if (change[0] == '-') return true;
  if (!equals) return false;
  *equals = 0;
  if (change[0] == '+' || change[0] == '~')
    return add_tensor(m, ac_model_file_find(m->file, equals + 1), change + 1, change[0] == '~');
  if (m->metadata_count == MOST_METADATA) return false;
  m->metadata[m->metadata_count++] = (ac_metadata){change, equals + 1};
  return true;
}

static int write_model(const char *from, const char *to, int count, char **changes) {
  static changed_model m;
  if (ac_model_file_open(&m.file, from) != AC_OK) return 1;
  bool good = true;
  for (int i = 0; i < ac_model_file_tensor_count(m.file) && good; i++)
    if (!is_left_out(ac_model_file_tensor(m.file, i)->name, count, changes))
      good = add_tensor(&m, i, NULL, false);
  for (int i = 0; i < count && good; i++) good = apply(&m, changes[i]);
  good = good && ac_model_file_write(to, m.tensors, m.count, m.metadata, m.metadata_count,
                                     read_changed, &m) == AC_OK;
  ac_model_file_close(m.file);
  return !good;
}

static float *read_all(ac_model_file *file, int index, int64_t *count) {
  const ac_model_tensor *t = ac_model_file_tensor(file, index);
  *count = 1;
  for (int d = 0; d < t->rank; d++) *count *= t->shape[d];
  float *data = malloc((size_t)*count * sizeof *data);
  if (data && ac_model_file_read(file, index, 0, *count, data) == AC_OK) return data;
  free(data);
  return NULL;
}

/* The names of the tensors in which two models differ by more than 1e-6. */
static int list_moved(const char *path, const char *other) {
  ac_model_file *files[2];
  if (ac_model_file_open(&files[0], path) != AC_OK || ac_model_file_open(&files[1], other) != AC_OK)
    return 1;
  for (int i = 0; i < ac_model_file_tensor_count(files[0]); i++) {
    const char *name = ac_model_file_tensor(files[0], i)->name;
    int64_t counts[2];
    float *a = read_all(files[0], i, &counts[0]),
          *b = read_all(files[1], ac_model_file_find(files[1], name), &counts[1]);
    bool moved = !a || !b || counts[0] != counts[1];
    for (int64_t k = 0; k < counts[0] && !moved; k++)
      moved = !(fabs((double)a[k] - (double)b[k]) <= 1e-6);
    if (moved) printf("%s\n", name);
    free(a);
    free(b);
  }
  ac_model_file_close(files[0]);
  ac_model_file_close(files[1]);
  return 0;
}

static int write_chats(int count) {
  uint32_t random = 1;
  for (int i = 0; i < count; i++) {
    const unsigned a = next_random(&random) % 10, b = next_random(&random) % 10;
    printf("{\"messages\": [{\"role\": \"user\", \"content\": \"%u+%u?\"}, {\"role\": "
           "\"assistant\", \"content\": \"%u.\"}]}\n",
           a, b, a + b);
  }
  return 0;
}

static int list_formats(void) {
  for (int i = 0; i < FORMAT_FILES; i++)
    printf("%s|%s|%d\n", format_files[i].name, format_files[i].called, format_files[i].readers);
  return 0;
}

static int write_safetensors(const char *path, const char *length, const char *header,
                             const char *bytes) {
  FILE *file = fopen(path, "wb");
  if (!file) return 1;
  uint64_t claimed = strtoull(length, NULL, 10);
  if (!claimed) claimed = strlen(header);
  for (int i = 0; i < 8; i++) fputc((int)(claimed >> 8 * i & 255), file);
  fputs(header, file);
  for (long n = atol(bytes); n > 0; n--) fputc(0, file);
  return fclose(file) != 0;
}

/* Whether (x, y), from -1 to 1, is in the shape of a class. */
static bool is_drawn(int class, double x, double y) {
  if (class == 0) return x * x + y * y < 0.8;              /* circle */
  if (class == 1) return fabs(x) < 0.25 || fabs(y) < 0.25; /* cross */
  return fabs(x) < 0.75 && fabs(y) < 0.75;                 /* square */
}

/* One picture: a shape in one colour on another, at a random place, in a random size. `mask`: where
 * its mask goes; NULL: there is none. */
static int write_picture(const char *path, const char *mask, int class, uint32_t *random) {
  enum { MOST = 112 };
  static uint8_t pixels[3 * MOST * MOST], classes[MOST * MOST];
  const int width = 48 + (int)(next_random(random) % 64),
            height = 48 + (int)(next_random(random) % 64);
  const int least = width < height ? width : height;
  const double radius = least * (0.25 + 0.15 * (next_random(random) % 100) / 100.0),
               left = radius + (width - 2 * radius) * (next_random(random) % 100) / 100.0,
               top = radius + (height - 2 * radius) * (next_random(random) % 100) / 100.0;
  int colours[2][3];
  for (int c = 0; c < 3; c++) {
    colours[0][c] = 20 + (int)(next_random(random) % 90);
    colours[1][c] = 140 + (int)(next_random(random) % 90);
  }
  const bool dark = next_random(random) % 2;
  for (int i = 0; i < width * height; i++) {
    const double x = (i % width - left) / radius, y = (i / width - top) / radius;
    const bool drawn = is_drawn(class, x, y), larger = is_drawn(class, x / 1.06, y / 1.06);
    classes[i] = (uint8_t)(drawn == larger ? drawn * (class + 1) : AC_MASK_IGNORED);
    for (int c = 0; c < 3; c++)
      pixels[3 * i + c] =
          (uint8_t)(colours[drawn != dark][c] + (int)(next_random(random) % 24) - 12);
  }
  if (mask && ac_mask_write_png(mask, width, height, classes) != AC_OK) return 1;
  return ac_picture_write_png(path, width, height, 3, pixels) != AC_OK;
}

static int write_masks(const char *folder, int count, int seed) {
  static const char *const parts[] = {"", "/images", "/masks"};
  char path[4096], mask[4096];
  uint32_t random = (uint32_t)seed;
  for (int i = 0; i < 3; i++) {
    snprintf(path, sizeof path, "%s%s", folder, parts[i]);
    if (mkdir(path, 0777) != 0 && errno != EEXIST) return 1;
  }
  for (int i = 0; i < count; i++) {
    snprintf(path, sizeof path, "%s/images/%04d.png", folder, i);
    snprintf(mask, sizeof mask, "%s/masks/%04d.png", folder, i);
    if (write_picture(path, mask, i % 3, &random) != 0) return 1;
  }
  return 0;
}

/* A folder for each class, with `count` pictures in all. */
static int write_pictures(const char *folder, int count, int seed) {
  static const char *const classes[] = {"circle", "cross", "square"};
  char path[4096];
  uint32_t random = (uint32_t)seed;
  for (int c = -1; c < 3; c++) {
    snprintf(path, sizeof path, "%s/%s", folder, c < 0 ? "" : classes[c]);
    if (mkdir(path, 0777) != 0 && errno != EEXIST) return 1;
  }
  for (int i = 0; i < count; i++) {
    snprintf(path, sizeof path, "%s/%s/%04d.png", folder, classes[i % 3], i);
    if (write_picture(path, NULL, i % 3, &random) != 0) return 1;
  }
  return 0;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (argc == 5 && !strcmp(what, "images")) return write_images(argv[2], argv[3], atoi(argv[4]));
  if (argc == 5 && !strcmp(what, "tokens"))
    return write_tokens(argv[2], atoi(argv[3]), atoi(argv[4]));
  if (argc == 5 && !strcmp(what, "digits")) return write_digits(argv[2], argv[3], atoi(argv[4]));
  if (argc == 4 && !strcmp(what, "text")) return write_text(argv[2], atoi(argv[3]));
  if (argc == 4 && !strcmp(what, "bare")) return write_bare(argv[2], argv[3]);
  if (argc >= 4 && !strcmp(what, "model")) return write_model(argv[2], argv[3], argc - 4, argv + 4);
  if (argc == 4 && !strcmp(what, "moved")) return list_moved(argv[2], argv[3]);
  if (argc == 4 && !strcmp(what, "llm"))
    return !tiny_llm_write(argv[2], (unsigned)atoi(argv[3]), atoi(argv[3]) > 0);
  if (argc == 3 && !strcmp(what, "chats")) return write_chats(atoi(argv[2]));
  if (argc == 3 && !strcmp(what, "formats")) return !formats_write(argv[2]);
  if (argc == 5 && !strcmp(what, "pictures"))
    return write_pictures(argv[2], atoi(argv[3]), atoi(argv[4]));
  if (argc == 5 && !strcmp(what, "masks"))
    return write_masks(argv[2], atoi(argv[3]), atoi(argv[4]));
  if (argc == 2 && !strcmp(what, "list")) return list_formats();
  if (argc == 6 && !strcmp(what, "safetensors"))
    return write_safetensors(argv[2], argv[3], argv[4], argv[5]);
  return 2;
}
