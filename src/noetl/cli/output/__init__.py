"""What commands print: styled lines for people, JSON documents for programs."""
