/* Zip archives, as far as PyTorch writes them: entries that are stored as they are, so that their
 * bytes can be read in place. */
#ifndef AC_IO_ZIP_H
#define AC_IO_ZIP_H

#include "io/opened.h"

typedef struct ac_zip_entry {
  const char *name; /* in the archive's directory */
  int64_t header;   /* where its own header begins in the file */
  int64_t bytes;
  bool plain; /* neither compressed nor encrypted */
} ac_zip_entry;

typedef struct ac_zip {
  ac_zip_entry *entries;
  int64_t count;
  char *names;
  json_t *by_name; /* {NAME: index} */
} ac_zip;

/* Reads the directory of the archive. ac_zip_release it, also after a failure. */
ac_status ac_zip_read(ac_zip *zip, const ac_model_file *file, int64_t file_bytes);
void ac_zip_release(ac_zip *zip);

/* NULL: the archive has no such entry. */
const ac_zip_entry *ac_zip_find(const ac_zip *zip, const char *name);
/* Where an entry's bytes begin. All of them are in the file. */
ac_status ac_zip_begin_of(const ac_model_file *file, int64_t file_bytes, const ac_zip_entry *entry,
                          int64_t *begin);

#endif
