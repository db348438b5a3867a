"""What each screen asks the servers: plain functions over the admin client, run in threads, without Textual."""
