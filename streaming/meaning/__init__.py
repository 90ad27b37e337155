"""What a query's plan says of columns that belong to one cluster; pure."""
