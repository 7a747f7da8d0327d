"""Fuzzing that knows what it changes: fields of files that the soft NPU executes, and of tasks."""
