"""What several tests need, one room a subject: clocks, databases, providers, HTTP, processes, engines, histories."""
