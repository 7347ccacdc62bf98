/* The output of `accrue sample`: from tokens to characters on stdout. */
#include "program/sample.h"
#include "common/message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- decoding -------------------------------------------------------------------------------- */

static const char unknown[] = "\xef\xbf\xbd"; /* U+FFFD: what is not a character, or not yet */
enum { PATIENCE = 8 };                        /* tokens that a character may take */

static bool ends_in_unknown(const char *text, size_t bytes) {
  return bytes >= 3 && !memcmp(text + bytes - 3, unknown, 3);
}

/* A token's text may depend on the tokens before it: a space at the beginning is left out. So the
 * tokens that were written last are decoded again with those that follow. */
int sample_decoder_next(sample_decoder *d, const uint32_t *tokens, size_t count, bool last,
                        char **text, size_t *bytes) {
  char *known = NULL, *all = NULL;
  size_t known_bytes = 0, all_bytes = 0;
  *text = NULL;
  *bytes = 0;
  if (ac_tokenizer_decode(&known, &known_bytes, d->tokenizer, tokens + d->before,
                          d->first - d->before, true) != AC_OK ||
      ac_tokenizer_decode(&all, &all_bytes, d->tokenizer, tokens + d->before, count - d->before,
                          true) != AC_OK) {
    free(known);
    return fail_library();
  }
  free(known);
  const bool whole = last || !ends_in_unknown(all, all_bytes) || count - d->first > PATIENCE;
  if (whole && all_bytes > known_bytes) {
    *bytes = all_bytes - known_bytes;
    memmove(all, all + known_bytes, *bytes + 1);
    d->before = d->first;
    d->first = count;
    *text = all;
  } else free(all);
  return STATUS_CONTINUE;
}

/* ---- writing --------------------------------------------------------------------------------- */

void sample_output_begin(sample_output *o, const option_list *stops) {
  *o = (sample_output){.stops = *stops, .terminal = isatty(STDOUT_FILENO)};
}

void sample_output_free(sample_output *o) {
  free(o->held);
  o->held = NULL;
}

void sample_output_cut(const option_list *stops, char *text) {
  for (int i = 0; i < stops->count; i++) {
    char *stop = *stops->items[i] ? strstr(text, stops->items[i]) : NULL;
    if (stop) *stop = 0;
  }
}

/* The first stop in what is held; its length if there is none. */
static size_t find_stop(const sample_output *o) {
  size_t first = o->held_bytes;
  for (int i = 0; i < o->stops.count; i++) {
    const size_t length = strlen(o->stops.items[i]);
    for (size_t at = 0; length && at + length <= o->held_bytes && at < first; at++)
      if (!memcmp(o->held + at, o->stops.items[i], length)) first = at;
  }
  return first;
}

/* How many bytes at the end may be the beginning of a stop. */
static size_t begins_stop(const sample_output *o) {
  size_t most = 0;
  for (int i = 0; i < o->stops.count; i++) {
    size_t length = strlen(o->stops.items[i]);
    if (length > o->held_bytes) length = o->held_bytes;
    while (length > most &&
           memcmp(o->held + o->held_bytes - length, o->stops.items[i], length) != 0)
      length--;
    if (length > most) most = length;
  }
  return most;
}

/* Writes the first bytes of what is held, if they are whole characters; `all`: even if not. */
static int write_held(sample_output *o, size_t bytes, bool all) {
  size_t written = bytes;
  if (!bytes) return STATUS_CONTINUE;
  if (!o->terminal) fwrite(o->held, 1, bytes, stdout);
  else {
    written = message_put_some(stdout, o->held, bytes, true);
    for (size_t i = written; all && i < bytes; i++) message_put(stdout, "%c", o->held[i]);
    if (all) written = bytes;
  }
  o->held_bytes -= written;
  memmove(o->held, o->held + written, o->held_bytes);
  if (ferror(stdout) || fflush(stdout) != 0)
    return fail("cannot write the sample: %s", strerror(errno));
  return STATUS_CONTINUE;
}

int sample_output_put(sample_output *o, const char *text, size_t bytes) {
  if (o->stopped || !bytes) return STATUS_CONTINUE;
  if (o->held_bytes + bytes > o->room) {
    const size_t room = 2 * (o->held_bytes + bytes);
    char *grown = realloc(o->held, room);
    if (!grown) return fail("out of memory");
    o->held = grown;
    o->room = room;
  }
  memcpy(o->held + o->held_bytes, text, bytes);
  o->held_bytes += bytes;
  const size_t stop = find_stop(o);
  o->stopped = stop < o->held_bytes;
  return write_held(o, o->stopped ? stop : o->held_bytes - begins_stop(o), o->stopped);
}

int sample_output_end(sample_output *o) {
  const int status = o->stopped ? STATUS_CONTINUE : write_held(o, o->held_bytes, true);
  if (o->terminal) putchar('\n');
  o->held_bytes = 0;
  o->stopped = false;
  return status;
}
