"""Sources and the way from files to batches. Import the module you need: this room re-exports nothing."""
