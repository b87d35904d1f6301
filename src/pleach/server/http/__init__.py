"""The admin port of a broker process: a small HTTP server, its pages, and the contents of status and metrics."""
