/* Calls of the C library that fail when they are told to: files, and memory. As a module that is
 * loaded before a program (LD_PRELOAD) it is told by the environment, and the calls of the program
 * and libaccrue are met, as are those of the libraries that they use files with; linked into a test
 * with FAULTS_LINKED and the linker's --wrap it is told by faults_arm, and all calls of what is
 * linked are met.
 *
 *   ACCRUE_FAULT         CLASS:FIRST[-[LAST]][:KIND]: which calls of the class fail, counted from 1
 *   ACCRUE_FAULT_PATH    only files with this in their path
 *   ACCRUE_FAULT_REPORT  a file for two numbers at the end: calls of the class, those that failed
 *
 * Classes are `file` (all that makes, opens, reads, writes, syncs, renames and closes files, but
 * for stdout and stderr) and `memory` (allocations, mappings, threads). Kinds of `file`:
 *
 *   EIO, ENOSPC, EINTR, EINVAL, EACCES, EMFILE   the call fails so; a file is closed all the same
 *   short    what reads or writes does half of it; other calls pass
 *   crash    the process is killed; what writes has done half of it
 *   power    the same, and files lose what was not synced */
#ifndef TESTS_FAULTS_H
#define TESTS_FAULTS_H

#include <stdbool.h>

/* From now on, counted anew. `path` may be NULL and stays the caller's. False: malformed text. */
bool faults_arm(const char *text, const char *path);
void faults_pause(bool paused); /* neither fails nor counts, until it goes on */

long faults_calls(void);  /* of the class while it was armed */
long faults_failed(void); /* of these */

#endif
