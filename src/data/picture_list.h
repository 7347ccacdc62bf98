/* A list of pictures while it is made: the store gets its entries and classes one after another. */
#ifndef AC_DATA_PICTURE_LIST_H
#define AC_DATA_PICTURE_LIST_H

#include "data/byte_file.h"
#include "data/pictures.h"

/* While a store is made. */
typedef struct ac_picture_opening {
  ac_file_path path; /* without slashes at its end */
  ac_pictures_desc desc;
  ac_picture_store *store;
  int64_t boundary; /* entries from there on validate */
  int64_t name_room, label_room;
  bool numbered; /* classes are numbers of a CSV file */
  ac_pictures_problem problem;
} ac_picture_opening;

ac_status ac_picture_no_memory(void);
/* NULL: there is no memory. */
char *ac_picture_copy_text(const char *text, size_t length);
/* Room for one element more of `size` bytes; doubles. */
ac_status ac_picture_make_room(void **array, int64_t count, int64_t *room, size_t size);
/* Takes over `path`, also if it fails. */
ac_status ac_picture_add_entry(ac_picture_opening *o, char *path, int32_t label);
ac_status ac_picture_add_class(ac_picture_opening *o, const char *name, size_t length);
/* Sorts them and leaves one of equal ones. */
void ac_picture_sort_classes(ac_picture_store *s);
/* -1: there is none of that name. */
int32_t ac_picture_find_class(const ac_picture_store *s, const char *name, size_t length);

/* pictures_csv.c: reads the pictures and classes of a CSV file. */
ac_status ac_picture_open_csv(ac_picture_opening *o);

#endif
