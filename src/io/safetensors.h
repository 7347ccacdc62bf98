/* What the reader and the writer of safetensors files share. A file is
 *
 *   8 bytes         N, little-endian
 *   N bytes         a JSON object, padded with spaces:
 *                   {"__metadata__": {KEY: TEXT, ...},
 *                    NAME: {"dtype": "F32", "shape": [2, 3], "data_offsets": [BEGIN, END]}, ...}
 *   the rest        the tensors' elements, little-endian, row-major, without holes; offsets count
 * from here */
#ifndef AC_IO_SAFETENSORS_H
#define AC_IO_SAFETENSORS_H

#define AC_SAFETENSORS_METADATA "__metadata__"

enum {
  AC_SAFETENSORS_MAX_HEADER = 100000000, /* bytes; the format's own limit */
  AC_SAFETENSORS_MAX_RANK = 8
};

/* A name for use in a sentence: quoted, shortened, control characters replaced. */
typedef struct ac_quoted {
  char text[104];
} ac_quoted;
ac_quoted ac_quote(const char *name);

#endif
